// Whether the host may wait for the GPU.
#include <c10/cuda/CUDAFunctions.h>

/// on: from now on whatever waits for the GPU by way of LibTorch throws c10::Error. For tests of
/// loops that must not.
extern "C" void composer_refuse_waits(bool on) {
  using c10::cuda::SyncDebugMode;
  c10::cuda::warning_state().set_sync_debug_mode(on ? SyncDebugMode::L_ERROR
                                                    : SyncDebugMode::L_DISABLED);
}

// Lets tests refuse waits for the GPU.
#include <c10/cuda/CUDAFunctions.h>

/// With `on`, each wait for the GPU through LibTorch throws c10::Error from now on. For tests of
/// loops that must not wait.
extern "C" void composer_refuse_waits(bool on) {
  using c10::cuda::SyncDebugMode;
  c10::cuda::warning_state().set_sync_debug_mode(on ? SyncDebugMode::L_ERROR
                                                    : SyncDebugMode::L_DISABLED);
}

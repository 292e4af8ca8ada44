#include "nn/distributed/nccl.h"

#include "nn/device/cuda_library.h"

namespace composer {

c10::intrusive_ptr<c10d::Backend> open_nccl(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                            int size, std::chrono::milliseconds timeout) {
  auto* const open = reinterpret_cast<OpenNccl*>(
      function_of_cuda_library("composer_nccl", "device: gpu: ranks on GPUs need"));
  return c10::intrusive_ptr<c10d::Backend>::reclaim(open(store, rank, size, timeout));
}

}  // namespace composer

// libcomposer_cuda.so opens, and NCCL in it: sums on a GPU where there is one, else says that there
// is none. A program of its own, as LibTorch's CUDA library stays open.
#include <ATen/ATen.h>

#include <iostream>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "nn/distributed/nccl.h"
#include "tests/first_gpu.h"

int main() {
  return composer::on_first_gpu("no GPUs found", [] {
    const auto nccl =
        composer::open_nccl(c10::make_intrusive<c10d::HashStore>(), 0, 1, std::chrono::seconds(30));
    std::vector<at::Tensor> numbers{at::full({3}, 2., at::Device(at::kCUDA, 0))};
    nccl->allreduce(numbers)->wait();
    std::cout << "one rank's sum on a GPU: " << numbers[0][0].item<double>() << '\n';
    nccl->shutdown();
    return numbers[0].cpu().equal(at::full({3}, 2.)) ? 0 : 1;
  });
}

// The devices that a test runs on. CUDA was opened by the test program's main.
#pragma once

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <vector>

#include "nn/device/cuda.h"

namespace composer::test {

/// Where there is none, the test's output says why it does not run there.
inline bool has_gpu() {
  if (open_cuda().gpus > 0) return true;
  WARN("skipped on CUDA: " << open_cuda().problem);
  return false;
}

/// The CPU, and the GPU where there is one.
inline std::vector<at::Device> devices() {
  std::vector<at::Device> all{at::kCPU};
  if (has_gpu()) all.emplace_back(at::kCUDA);
  return all;
}

}  // namespace composer::test

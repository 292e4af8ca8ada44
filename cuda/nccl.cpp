#include "composer/distributed/nccl.h"

#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

extern "C" c10d::Backend* composer_nccl(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                        int size, std::chrono::milliseconds timeout) {
  const auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = timeout;
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, size, options).release();
}

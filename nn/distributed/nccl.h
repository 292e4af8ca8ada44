// NCCL between the GPUs of several ranks. Included by what includes c10d alone.
#pragma once

#include <chrono>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

/// What cuda/ has for it. The caller owns the reference.
using OpenNccl = c10d::Backend*(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                std::chrono::milliseconds timeout);
extern "C" OpenNccl composer_nccl;

namespace composer {

/// timeout: of each call. The GPU of this rank is the current device. UserError where
/// libcomposer_cuda.so cannot be opened.
c10::intrusive_ptr<c10d::Backend> open_nccl(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                            int size, std::chrono::milliseconds timeout);

}  // namespace composer

// NCCL between the GPUs of several ranks. Only sources that include c10d include it.
#pragma once

#include <chrono>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

/// The function in libcomposer_cuda.so. The caller owns the reference.
using OpenNccl = c10d::Backend*(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                std::chrono::milliseconds timeout);
extern "C" OpenNccl composer_nccl;

namespace composer {

/// timeout: of each call. The current device is this rank's GPU. UserError if
/// libcomposer_cuda.so cannot be opened.
c10::intrusive_ptr<c10d::Backend> open_nccl(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                            int size, std::chrono::milliseconds timeout);

}  // namespace composer

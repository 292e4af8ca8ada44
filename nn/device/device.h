// The device of a run, and settings of the whole device.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/Event.h>

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>

#include "base/rank_environment.h"

namespace composer {

/// word: auto, cpu or gpu. auto takes this rank's GPU (LOCAL_RANK) where there is one, or the only
/// GPU that a scheduler shows it; it warns with the reason where there is a driver but no usable
/// GPU. UserError with the reason for gpu where none can be used. Opens CUDA unless word is cpu:
/// call it before anything else asks LibTorch about CUDA (see open_cuda), and hand the device on.
at::Device resolve_device(std::string_view word, const RankEnvironment& environment);

/// Seeds the CPU generator, from which weights are drawn, and no other generator: at::manual_seed
/// asks about CUDA.
void seed_generator(uint64_t seed);

/// "cpu (Intel ..., 2 threads, AVX512)" or "cuda:0".
std::string describe(at::Device device);

void synchronize(at::Device device);

/// A copy of a tensor to a device that overlaps with the device's computation: from pinned memory,
/// on a stream of its own. A tensor of at most 1 MiB in other memory is pinned first; a larger one
/// may wait for the device.
class Upload {
 public:
  /// Begins the copy; a copy that may wait for the device begins in take().
  Upload(at::Device device, const at::Tensor& tensor);

  /// The copy; called once. Work that is queued on the current stream from now on comes after the
  /// copy.
  at::Tensor take();

 private:
  at::Device device_;
  at::Tensor tensor_;
  std::optional<c10::Event> done_;  ///< set once a copy has begun; tensor_ is the copy then
};

/// A copy on the device, which only later work on the device waits for (see Upload).
at::Tensor copy_to(at::Device device, const at::Tensor& tensor);

/// Peak memory in bytes: the process's resident set for the CPU, the allocator's for a GPU.
int64_t peak_memory_bytes(at::Device device);

/// Whether an allocator, the CPU's or a GPU's, threw the error for want of memory.
bool is_out_of_memory(const std::exception& error);

/// Waits for the device and returns its unused memory to the system. Does nothing for the CPU.
void free_unused_memory(at::Device device);

/// true: deterministic operations only; an operation without a deterministic form throws. false:
/// the fastest ones, for which cuDNN tries several algorithms on each new shape of a convolution.
/// Call before CUDA is used.
void set_deterministic(bool deterministic);

/// Lets cuDNN try fewer algorithms, for runs whose images often change their size. Call after
/// set_deterministic.
void expect_many_image_sizes();

/// While it lives, operations need not be deterministic. For an operation whose result does not
/// depend on the order of its writes, since it writes each element once or adds integers: LibTorch
/// would sort the indices, and wait for the device to do so.
class AnyOrder {
 public:
  AnyOrder();
  ~AnyOrder();
  AnyOrder(const AnyOrder&) = delete;
  AnyOrder& operator=(const AnyOrder&) = delete;

 private:
  bool deterministic_;
};

}  // namespace composer

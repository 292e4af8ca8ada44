// The device a run uses, and what is done to it as a whole.
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

/// word: auto, cpu or gpu. place: of this rank. auto takes its GPU (LOCAL_RANK) where there is one,
/// or the only one that a scheduler shows it, and warns with the reason where there is a driver but
/// no GPU to be had. Throws UserError for gpu where none can be used, saying why. Opens CUDA unless
/// word is cpu: call it before anything else asks LibTorch about CUDA (open_cuda says what does),
/// and hand the device on.
at::Device resolve_device(std::string_view word, const RankEnvironment& environment);

/// Seeds the generator that weights are drawn from, and no other: at::manual_seed asks about CUDA.
void seed_generator(uint64_t seed);

/// "cpu (Intel ..., 2 threads, AVX512)" or "cuda:0".
std::string describe(at::Device device);

void synchronize(at::Device device);

/// A tensor on its way to a device, beside what that computes: from pinned memory on a stream of
/// its own. At most 1 MiB from other memory goes by way of pinned memory; more may wait for the
/// device.
class Upload {
 public:
  /// Begins to copy, but for what may wait.
  Upload(at::Device device, const at::Tensor& tensor);

  /// The copy; once. What is queued from now on comes after it, on the stream that is current.
  at::Tensor take();

 private:
  at::Device device_;
  at::Tensor tensor_;
  std::optional<c10::Event> done_;  ///< of a copy that was begun, which tensor_ then is
};

/// A copy on the device, which only later work waits for: see Upload.
at::Tensor copy_to(at::Device device, const at::Tensor& tensor);

/// Most memory held so far: of the process on the CPU (resident set), of the allocator on a GPU.
int64_t peak_memory_bytes(at::Device device);

/// Whether an allocator threw it, the CPU's or a GPU's, for want of memory.
bool is_out_of_memory(const std::exception& error);

/// Waits for the device and gives it back the memory that nothing uses. Nothing on the CPU.
void free_unused_memory(at::Device device);

/// Deterministic operations only (an operation that has none throws), or the fastest ones, for
/// which cuDNN tries several algorithms on each new shape of a convolution. Call before CUDA is
/// used.
void set_deterministic(bool deterministic);

/// cuDNN tries fewer algorithms: for runs whose images change their size again and again. Call
/// after set_deterministic.
void expect_many_image_sizes();

/// While it lives, operations need not be deterministic: for one whose result does not depend on
/// the order of its writes, as each element is written once or integers are added up. LibTorch
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

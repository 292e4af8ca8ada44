// The device a run uses. CUDA is opened at run time when a driver is present; the program does not
// link it.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace composer {

/// word: auto, cpu or gpu. auto takes the GPU of this rank (LOCAL_RANK) where there is one.
/// Throws UserError for gpu where none can be used, saying why.
at::Device resolve_device(std::string_view word);

/// Seeds the generator that weights are drawn from, and no other: at::manual_seed asks about CUDA.
void seed_generator(uint64_t seed);

/// "cpu (Intel ..., 2 threads, AVX512)" or "cuda:0".
std::string describe(at::Device device);

void synchronize(at::Device device);

/// A copy on the device. From pinned memory it runs beside what the device computes, on a stream of
/// its own, which only later work waits for.
at::Tensor copy_to(at::Device device, const at::Tensor& tensor);

/// Most memory held so far: of the process on the CPU (resident set), of the allocator on a GPU.
int64_t peak_memory_bytes(at::Device device);

/// Deterministic operations only (an operation that has none throws), or the fastest ones. Call
/// before CUDA is used.
void set_deterministic(bool deterministic);

}  // namespace composer

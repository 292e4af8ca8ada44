// GPUs and networks that a training is planned for: published figures, each with its source.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "nn/network/precision.h"

namespace composer {

/// Of one member of a group, in each direction.
struct Link {
  double bytes_per_s = 0;
  double latency = 0;  ///< seconds of a message beside its bytes
  std::string source = {};
};

/// Whose kernels a rate is of: PyTorch's, one operation after another, or those of MLPerf's fastest
/// entries (convolutions with their normalisations, CUDA graphs).
enum class Kernels { pytorch, mlperf };

/// What a GPU does of a convolutional network's training step, beside the start of its kernels.
struct SustainedRate {
  double flops_per_s = 0;  ///< a multiply-add is two
  std::string source;
};

struct Gpu {
  std::string name;    ///< "h200"
  std::string driver;  ///< as its driver names it, for published_peak()
  double memory_bytes = 0, memory_bytes_per_s = 0;
  int64_t per_machine = 0;  ///< of the usual machine
  int64_t cards = 0;        ///< network cards of that machine
  Link inside;              ///< to the other GPUs of its machine, as all-reduces reach it
  double host_bytes_per_s = 0;
  std::string source;  ///< of memory, machine and links
};

struct Interconnect {
  std::string name;  ///< "400g"
  Link card;         ///< of one card
};

const std::vector<Gpu>& known_gpus();
const std::vector<Interconnect>& known_networks();

/// UserError that lists those known. option: what names it.
const Gpu& find_gpu(const std::string& option, const std::string& name);
const Interconnect& find_network(const std::string& option, const std::string& name);

/// What is measured where it is; else the peak that the maker publishes, times the share of it that
/// another GPU reaches. UserError for arithmetic that the GPU lacks.
SustainedRate sustained_rate(const Gpu& gpu, Precision precision, Kernels kernels);

/// Seconds from the start of a kernel to that of the next where there is next to nothing to do.
constexpr double kernel_seconds = 6e-6;
/// Kernels of an operation of the graph: one forward, two backward.
constexpr double kernels_of_operation = 3;
/// Times that a value that is kept for the backward pass goes to or from the GPU's memory in a
/// step.
constexpr double memory_passes = 10;

}  // namespace composer

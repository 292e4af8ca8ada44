// GPUs and networks that a training is planned for: published figures, each with its source.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace composer {

enum class Precision;

/// The link of one member of a group; figures are per direction.
struct Link {
  double bytes_per_s = 0;
  double latency = 0;  ///< seconds that a message takes beside its bytes
  std::string source = {};
};

/// The kernels that reach a rate: PyTorch's, one operation after another, or the kernels of
/// MLPerf's fastest entries (convolutions fused with normalisations, CUDA graphs).
enum class Kernels { pytorch, mlperf };

/// The rate of a GPU in a convolutional network's training step, kernel launches not counted.
struct SustainedRate {
  double flops_per_s = 0;  ///< a multiply-add counts as two
  std::string source;
};

struct Gpu {
  std::string name;    ///< "h200"
  std::string driver;  ///< the driver's name of the GPU, for published_peak()
  double memory_bytes = 0, memory_bytes_per_s = 0;
  int64_t per_machine = 0;  ///< GPUs in the usual machine
  int64_t cards = 0;        ///< network cards in the usual machine
  Link inside;              ///< link to the machine's other GPUs, as all-reduces reach it
  double host_bytes_per_s = 0;
  std::string source;  ///< source of the figures on memory, machine and links
};

struct Interconnect {
  std::string name;  ///< "400g"
  Link card;         ///< one network card
};

const std::vector<Gpu>& known_gpus();
const std::vector<Interconnect>& known_networks();

/// UserError that lists the known names. `option` is the option's name in messages.
const Gpu& find_gpu(const std::string& option, const std::string& name);
const Interconnect& find_network(const std::string& option, const std::string& name);

/// The measured rate if there is one; else the published peak times the share of its peak that
/// another GPU reaches. UserError for arithmetic that the GPU lacks.
SustainedRate sustained_rate(const Gpu& gpu, Precision precision, Kernels kernels);

/// Seconds from the start of a kernel to the start of the next for a kernel with almost no work.
constexpr double kernel_seconds = 6e-6;
/// Kernels per operation of the graph: one forward, two backward.
constexpr double kernels_of_operation = 3;
/// How often a step reads or writes a value that is kept for the backward pass.
constexpr double memory_passes = 10;

}  // namespace composer

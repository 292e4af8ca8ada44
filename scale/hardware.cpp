#include "scale/hardware.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "composer/callbacks/monitors.h"
#include "nn/network/precision.h"

namespace composer {
namespace {

constexpr double giga = 1e9;

/// From NCCL's table of hardware latencies (src/graph/tuning.cc), protocol Simple.
constexpr double nvlink_latency = 3.4e-6, pci_latency = 5.7e-6, rdma_latency = 14e-6;
/// The latency of kernel sockets; an estimate.
constexpr double tcp_latency = 40e-6;

/// The share of NVLink's advertised bandwidth that all-reduces of nccl-tests reach in each
/// direction: 230 to 250 of 300 GB/s on eight A100.
constexpr double reached = 0.8;
/// The share of a network card's bandwidth that is reached; an estimate.
constexpr double network_reached = 0.9;

Link nvlink(double gigabytes) {
  return {reached * gigabytes * giga, nvlink_latency,
          "NVIDIA's data sheets, 0.8 of a direction as nccl-tests reach on 8 x A100; latency of "
          "NCCL's tuning.cc"};
}

Link pci(double gigabytes) {
  return {reached * gigabytes * giga, pci_latency, "PCI Express; latency of NCCL's tuning.cc"};
}

Interconnect network(const std::string& name, double gigabits) {
  const bool rdma = gigabits >= 100;
  return {name,
          {network_reached * gigabits * giga / 8, rdma ? rdma_latency : tcp_latency,
           rdma ? "0.9 of the line; RDMA, latency of NCCL's tuning.cc"
                : "0.9 of the line; TCP, latency estimated"}};
}

/// The rate in a step of ResNet-50 at 224, kernel launches not counted; docs/scale.md has the
/// figures from which it is made.
struct Measured {
  std::string_view gpu;  ///< beginning of the GPU's name
  Precision precision;
  Kernels kernels;
  double teraflops;
  std::string_view source;
};

constexpr std::string_view dle =
    "NVIDIA DeepLearningExamples, ResNet-50 v1.5 PyTorch on 8 GPUs of a DGX";
constexpr std::string_view mlperf4 = "MLPerf Training v4.0 closed, ResNet-50 on 8 GPUs, NVIDIA";
constexpr std::string_view mlperf2 =
    "MLPerf Training v2.0 closed, ResNet-50 on 8 GPUs, as MosaicML quotes it";

constexpr Measured measured[] = {
    {"a100", Precision::amp_fp16, Kernels::pytorch, 51.8, dle},
    {"a100", Precision::tf32, Kernels::pytorch, 22.3, dle},
    {"v100", Precision::amp_fp16, Kernels::pytorch, 25.6, dle},
    {"v100", Precision::fp32, Kernels::pytorch, 8.75, dle},
    {"h200", Precision::amp_fp16, Kernels::mlperf, 206, mlperf4},
    {"h100", Precision::amp_fp16, Kernels::mlperf, 184, mlperf4},
    {"a100", Precision::amp_fp16, Kernels::mlperf, 81, mlperf2},
};

const Measured* find_measured(std::string_view gpu, Precision precision, Kernels kernels) {
  const auto found = std::ranges::find_if(measured, [&](const Measured& one) {
    return one.gpu == gpu && one.precision == precision && one.kernels == kernels;
  });
  return found == std::end(measured) ? nullptr : found;
}

/// The table's precision for `precision`: both 16-bit types are equally fast.
Precision alike(Precision precision) {
  return precision == Precision::amp_bf16 ? Precision::amp_fp16 : precision;
}

double peak_of(const Gpu& gpu, Precision precision) {
  if (gpu.driver.empty())
    throw UserError("--gpu: nothing is published for " + gpu.name +
                    "; give --from RUN, a run of one process");
  const auto peak = published_peak(gpu.driver, precision);
  if (!peak)
    throw UserError("precision: " + gpu.name + " has no " + std::string(name(precision)) +
                    " arithmetic");
  return *peak;
}

template <class T>
const T& find(const std::string& option, const std::string& kind, const std::string& name,
              const std::vector<T>& known) {
  const auto found = std::ranges::find(known, lower_case(name), &T::name);
  if (found != known.end()) return *found;
  std::vector<std::string> names;
  for (const auto& one : known) names.push_back(one.name);
  throw UserError(option + ": no " + kind + " '" + name +
                  "' is known; there are: " + joined(names));
}

/// "h100" of "h100_pcie".
std::string family_of(const Gpu& gpu) { return gpu.name.substr(0, gpu.name.find('_')); }

/// The figure of `precision`, preferably for `kernels`, of the GPU's own family, or else of the GPU
/// whose peak is nearest as a ratio.
const Measured& nearest_measured(const Gpu& gpu, Precision precision, Kernels kernels) {
  const auto distance = [&](const Measured& one) {
    if (one.gpu == family_of(gpu)) return -1.0;
    const double other = peak_of(find_gpu("gpu", std::string(one.gpu)), precision);
    return std::abs(std::log(other / peak_of(gpu, precision)));
  };
  const Measured* nearest = nullptr;
  for (const bool same_kernels : {true, false}) {
    for (const auto& one : measured)
      if (one.precision == precision && (one.kernels == kernels || !same_kernels) &&
          (nearest == nullptr || distance(one) < distance(*nearest)))
        nearest = &one;
    if (nearest != nullptr) break;
  }
  return *nearest;
}

}  // namespace

const std::vector<Gpu>& known_gpus() {
  static const std::string sheets = "NVIDIA's data sheets";
  static const std::vector<Gpu> gpus{
      {"h200", "NVIDIA H200", 141e9, 4.8e12, 8, 8, nvlink(450), 50e9, sheets + ", HGX H200"},
      {"h100", "NVIDIA H100 80GB HBM3", 80e9, 3.35e12, 8, 8, nvlink(450), 50e9,
       sheets + ", DGX H100"},
      {"h100_pcie", "NVIDIA H100 PCIe", 80e9, 2e12, 8, 2, pci(64), 50e9, sheets},
      {"a100", "NVIDIA A100-SXM4-80GB", 80e9, 2.039e12, 8, 8, nvlink(300), 25e9,
       sheets + ", DGX A100"},
      {"a100_40gb", "NVIDIA A100-SXM4-40GB", 40e9, 1.555e12, 8, 4, nvlink(300), 25e9,
       sheets + ", Amazon's p4d.24xlarge"},
      {"v100", "Tesla V100-SXM2-16GB", 16e9, 0.9e12, 8, 4, nvlink(150), 12e9, sheets + ", DGX-1"},
      {"cpu", "", 0, 20e9, 256, 1, Link{1e9, 100e-6, "Gloo on one machine; an estimate"}, 10e9,
       "processes of one machine; an estimate"},
      {"t4", "Tesla T4", 16e9, 0.32e12, 4, 1, pci(16), 12e9, sheets},
  };
  return gpus;
}

const std::vector<Interconnect>& known_networks() {
  static const std::vector<Interconnect> networks{
      network("10g", 10),   network("25g", 25),   network("40g", 40),   network("50g", 50),
      network("100g", 100), network("200g", 200), network("400g", 400), network("800g", 800)};
  return networks;
}

const Gpu& find_gpu(const std::string& option, const std::string& name) {
  return find(option, "GPU", name, known_gpus());
}

const Interconnect& find_network(const std::string& option, const std::string& name) {
  return find(option, "network", name, known_networks());
}

SustainedRate sustained_rate(const Gpu& gpu, Precision precision, Kernels kernels) {
  peak_of(gpu, precision);  // throws if the GPU lacks this arithmetic
  precision = alike(precision);
  const auto family = family_of(gpu);
  if (const auto* const own = find_measured(family, precision, kernels);
      own != nullptr && peak_of(gpu, precision) == peak_of(find_gpu("gpu", family), precision))
    return {own->teraflops * 1e12, std::string(own->source)};

  // The gain of MLPerf's kernels over PyTorch's is known for the A100.
  const auto* const fast = find_measured(family, precision, Kernels::mlperf);
  if (kernels == Kernels::pytorch && fast != nullptr) {
    const double slower = find_measured("a100", precision, Kernels::pytorch)->teraflops /
                          find_measured("a100", precision, Kernels::mlperf)->teraflops;
    const double same_chip = peak_of(gpu, precision) / peak_of(find_gpu("gpu", family), precision);
    return {fast->teraflops * 1e12 * slower * same_chip,
            std::string(fast->source) + ", times PyTorch's share of MLPerf's rate on the A100"};
  }
  const auto& other = nearest_measured(gpu, precision, kernels);
  const auto& others_gpu = find_gpu("gpu", std::string(other.gpu));
  const double share = other.teraflops * 1e12 / peak_of(others_gpu, precision);
  return {share * peak_of(gpu, precision), "the published peak, times the share of it that the " +
                                               others_gpu.name + " reaches (" +
                                               std::string(other.source) + ")"};
}

}  // namespace composer

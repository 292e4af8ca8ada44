#include "composer/callbacks/mfu.h"

#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "base/log.h"
#include "composer/logging/logger.h"
#include "composer/loop/state.h"
#include "nn/device/device.h"
#include "nn/device/gpu_name.h"
#include "nn/network/cost.h"

namespace composer {
namespace {

/// The graph of the network for one image of the batch.
Graph graph_of_image(const State& state) {
  try {
    return record(*state.model, at::zeros_like(state.batch.input.slice(0, 0, 1)));
  } catch (const UserError& error) {
    throw UserError(std::string("callbacks.mfu: ") + error.what());
  }
}

double step_flops(const Graph& graph, const Model& model) {
  return static_cast<double>(cost_of(graph, model).flops_step);
}

std::string rate_text(double flops) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", flops / 1e12);
  return std::string(text) + " TFLOP/s";
}

/// In TFLOP/s, without sparsity; 0: the GPU lacks this arithmetic.
struct PublishedPeak {
  std::string_view gpu;  ///< part of the GPU's name; the first match counts
  double fp32, tf32, fp16, bf16;
};

constexpr PublishedPeak published[] = {
    {"H200", 66.9, 494.7, 989.4, 989.4},    {"H100 80GB HBM3", 66.9, 494.7, 989.4, 989.4},
    {"H100 PCIe", 51.2, 378, 756.5, 756.5}, {"A100", 19.5, 156, 312, 312},
    {"V100-SXM2", 15.7, 0, 125, 0},         {"Tesla T4", 8.1, 0, 65, 0},
};

at::ScalarType type_of(Precision precision) {
  return precision == Precision::amp_bf16   ? at::kBFloat16
         : precision == Precision::amp_fp16 ? at::kHalf
                                            : at::kFloat;
}

/// A product of n x n matrices to be timed.
class SquareProduct {
 public:
  SquareProduct(int64_t n, at::ScalarType type, at::Device device)
      : n_(n),
        factor_(at::linspace(-1, 1, n * n, at::TensorOptions(device)).view({n, n}).to(type)),
        product_(at::empty_like(factor_)),
        device_(device) {
    seconds();  // the first one also sets up
  }

  double seconds() {
    synchronize(device_);
    const double begin = steady_seconds();
    at::mm_out(product_, factor_, factor_);
    synchronize(device_);
    return steady_seconds() - begin;
  }

  double flops() const { return 2.0 * static_cast<double>(n_ * n_ * n_); }

 private:
  int64_t n_;
  at::Tensor factor_, product_;
  at::Device device_;
};

}  // namespace

void Mfu::fit_start(const State& state, Logger&, RunControl&) {
  const auto peak = params_.peak_flops ? PeakFlops{*params_.peak_flops, "as stated"}
                                       : peak_flops(state.precision, state.device);
  peak_ = peak.per_second * static_cast<double>(state.ranks.size());
  log::info("mfu: 1 is " + rate_text(peak.per_second) + " in " +
            std::string(name(state.precision)) +
            (state.ranks.size() > 1 ? " on each of " + std::to_string(state.ranks.size()) + " ranks"
                                    : "") +
            ", " + peak.source);
}

void Mfu::epoch_start(const State& state, Logger&, RunControl&) {
  for (auto& [shape, known] : known_) known.flops = step_flops(known.graph, *state.model);
}

void Mfu::batch_start(const State& state, Logger&, RunControl&) {
  const auto shape = state.batch.input.sizes().slice(1).vec();
  auto found = known_.find(shape);
  if (found == known_.end()) {
    rate_.suspend();
    auto graph = graph_of_image(state);
    const double flops = step_flops(graph, *state.model);
    found = known_.emplace(shape, Known{std::move(graph), flops}).first;
    rate_.resume();
  }
  flops_ = found->second.flops;
  last_sample_ = state.time.sample;
  rate_.batch_start();
}

void Mfu::batch_end(const State& state, Logger& logger, RunControl&) {
  rate_.batch_end(static_cast<double>(state.time.sample - last_sample_) * flops_);
  if (rate_.per_second() > 0) logger.log("throughput/mfu", rate_.per_second() / peak_);
}

void Mfu::eval_start(const State&, Logger&, RunControl&) { rate_.suspend(); }

void Mfu::eval_end(const State&, Logger&, RunControl&) { rate_.resume(); }

std::optional<double> published_peak(std::string_view gpu, Precision precision) {
  const auto found = std::ranges::find_if(
      published, [&](const auto& known) { return gpu.find(known.gpu) != std::string_view::npos; });
  if (found == std::end(published)) return std::nullopt;
  const double peak = precision == Precision::fp32       ? found->fp32
                      : precision == Precision::tf32     ? found->tf32
                      : precision == Precision::amp_fp16 ? found->fp16
                                                         : found->bf16;
  return peak > 0 ? std::optional(peak * 1e12) : std::nullopt;
}

double measured_peak(Precision precision, at::Device device) {
  constexpr int64_t smallest = 1024, largest = 8192;
  constexpr double long_enough = 0.005;  // seconds, beside which starting a product is nothing
  constexpr int repeats = 5;
  for (int64_t n = smallest;; n *= 2) {
    SquareProduct product(n, type_of(precision), device);
    double best = product.seconds();
    if (best < long_enough && n < largest) continue;
    for (int i = 0; i < repeats; ++i) best = std::min(best, product.seconds());
    return product.flops() / best;
  }
}

PeakFlops peak_flops(Precision precision, at::Device device) {
  if (device.is_cuda()) {
    const auto gpu = gpu_name(device.index());
    if (const auto peak = published_peak(gpu, precision)) return {*peak, "published for " + gpu};
  }
  return {measured_peak(precision, device), "measured by products of large matrices"};
}

}  // namespace composer

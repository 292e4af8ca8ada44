// The callback mfu, and the peak arithmetic of devices.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <string_view>
#include <vector>

#include "composer/callbacks/callbacks.h"
#include "nn/network/graph.h"
#include "nn/network/precision.h"

namespace composer {

/// Logs throughput/mfu, the model FLOPs utilisation (Chowdhery et al. 2022, arXiv:2204.02311), over
/// the last window_size batches without evaluation: the FLOP/s of training steps on the images, as
/// network/cost.h counts them, divided by the device's peak. The count follows the image size and
/// frozen layers. It does not follow what algorithms skip in a pass (selective_backprop,
/// stochastic_depth) or add to it (sam), and covers only convolutions and matrix products.
class Mfu : public Callback {
 public:
  struct Params {
    std::optional<double> peak_flops;
    int64_t window_size = 100;

    void fields(auto&& f) {
      f("peak_flops", peak_flops,
        "FLOP/s of the device in the run's precision, a multiply-add being two; none = what is "
        "published for a known GPU, else measured at the start",
        above(0));
      f("window_size", window_size, "batches that the rate is taken over", at_least(1));
    }
  };

  explicit Mfu(Params params, BatchRate::Clock clock = steady_seconds)
      : params_(params), rate_(params.window_size, std::move(clock)) {}

  /// UserError at the first batch if the network's operations cannot be recorded.
  void fit_start(const State& state, Logger& logger, RunControl& control) override;
  void epoch_start(const State& state, Logger& logger, RunControl& control) override;
  void batch_start(const State& state, Logger& logger, RunControl& control) override;
  void batch_end(const State& state, Logger& logger, RunControl& control) override;
  void eval_start(const State& state, Logger& logger, RunControl& control) override;
  void eval_end(const State& state, Logger& logger, RunControl& control) override;

 private:
  struct Known {
    Graph graph;       ///< the graph for one image
    double flops = 0;  ///< FLOPs of a training step on one image
  };

  Params params_;
  BatchRate rate_;
  double peak_ = 0;
  std::map<std::vector<int64_t>, Known> known_;  ///< graphs by the image's shape [C, H, W]
  double flops_ = 0;  ///< FLOPs of a training step per image of this batch
  int64_t last_sample_ = 0;
};

struct PeakFlops {
  double per_second = 0;  ///< FLOP/s; a multiply-add is two
  std::string source;     ///< for people: "published for NVIDIA H200"
};

/// The peak of dense products in `precision`: the published one of a known GPU, else a measured
/// one, which takes a fraction of a second.
PeakFlops peak_flops(Precision precision, at::Device device);

/// gpu: its name by the driver. Nothing for an unknown GPU, or one without this arithmetic.
std::optional<double> published_peak(std::string_view gpu, Precision precision);

/// The highest FLOP/s of a few products of large square matrices.
double measured_peak(Precision precision, at::Device device);

}  // namespace composer

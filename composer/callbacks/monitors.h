// Callbacks that log gradients, weights, memory, ranks, images and the use of the device's peak.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "composer/callbacks/callbacks.h"
#include "nn/network/batch.h"
#include "nn/network/graph.h"
#include "nn/network/precision.h"

namespace composer {

/// Calls look() every `interval`, at the ends of batches and epochs.
class IntervalMonitor : public Callback {
 public:
  void batch_end(const State& state, Logger& logger, RunControl& control) final;
  void epoch_end(const State& state, Logger& logger, RunControl& control) final;

 protected:
  explicit IntervalMonitor(Time interval) : interval_(interval) {}

 private:
  virtual void look(const State& state, Logger& logger) = 0;

  Time interval_;
};

/// Logs L2 norms of the gradients of the last update, unscaled and clipped, every `interval`:
/// grad_l2_norm/step of all gradients, and layer_grad_l2_norm/<group> of the parameters whose names
/// begin with <group>. No step waits for the device.
class GradientMonitor : public IntervalMonitor {
 public:
  struct Params {
    Time interval{10, TimeUnit::batch};
    bool log_layer_grad_norms = true;
    int64_t group_depth = 1;
    void fields(auto&& f) {
      f("interval", interval, "how often to look, in ep, ba or sp; 0 = never");
      f("log_layer_grad_norms", log_layer_grad_norms, "of each group of layers too");
      f("group_depth", group_depth,
        "how many parts of a parameter's name say its group: with 1 layer1.0.conv1.weight is of "
        "layer1",
        at_least(1));
    }
    std::string check() const { return check_interval("interval", interval); }
  };
  explicit GradientMonitor(Params params) : IntervalMonitor(params.interval), params_(params) {}

 private:
  void look(const State& state, Logger& logger) override;

  Params params_;
};

/// "layer1.0" of "layer1.0.conv1.weight" with depth 2; the module's own name where that has fewer
/// parts.
std::string parameter_group(const std::string& name, int64_t depth);

/// Logs the histograms weights/<parameter> and gradients/<parameter> every `interval`. No step
/// waits for the device.
class HistogramMonitor : public IntervalMonitor {
 public:
  explicit HistogramMonitor(Time interval) : IntervalMonitor(interval) {}

 private:
  void look(const State& state, Logger& logger) override;
};

/// Logs bytes every `interval`: memory/rss, the resident memory of the process, and
/// memory/peak_rss, its maximum so far; on a GPU also memory/allocated_mem,
/// memory/peak_allocated_mem and memory/reserved_mem of LibTorch's allocator there.
class MemoryMonitor : public IntervalMonitor {
 public:
  struct Params {
    Time interval{10, TimeUnit::batch};
    void fields(auto&& f) {
      f("interval", interval, "how often to look, in ep, ba or sp; 0 = never");
    }
    std::string check() const { return check_interval("interval", interval); }
  };
  explicit MemoryMonitor(Params params) : IntervalMonitor(params.interval) {}

 private:
  void look(const State& state, Logger& logger) override;
};

/// Logs, at each log_interval and over the batches since the last one: ranks/slowest, the rank that
/// worked longest; ranks/slowest_excess, the seconds per batch that it worked longer than the mean;
/// ranks/wait, the mean seconds per batch that ranks waited for others. Evaluation is left out. To
/// be used with more than one rank.
class Stragglers : public Callback {
 public:
  explicit Stragglers(Time log_interval) : log_interval_(log_interval) {}

  void fit_start(const State& state, Logger& logger, RunControl& control) override;
  void batch_end(const State& state, Logger& logger, RunControl& control) override;
  void eval_start(const State& state, Logger& logger, RunControl& control) override;
  void eval_end(const State& state, Logger& logger, RunControl& control) override;

 private:
  /// Seconds since a common moment.
  struct Reading {
    double passed, waited;
  };
  static Reading read(const State& state);

  Time log_interval_;
  Reading begin_{}, eval_begin_{};
  int64_t batches_ = 0;  ///< batches since begin_
};

/// Logs images/train: images of a training batch as the network gets them, after all augmentation,
/// with the normalisation undone. Captions are their labels and the samples' names. It logs the
/// run's first batch, and one every `interval`.
class ImageMonitor : public Callback {
 public:
  struct Params {
    int64_t num_images = 16;
    Time interval{0, TimeUnit::batch};
    void fields(auto&& f) {
      f("num_images", num_images, "images of a batch; 0 = none", at_least(0));
      f("interval", interval,
        "how often after the first batch, in ep or ba; 0 = of the first batch alone");
    }
    std::string check() const {
      if (interval.unit == TimeUnit::sample) return "interval: must be in ep or ba\n";
      return check_interval("interval", interval);
    }
  };
  explicit ImageMonitor(Params params) : params_(params) {}

  bool listens(Event) const override { return params_.num_images > 0; }
  void batch_start(const State& state, Logger& logger, RunControl& control) override;

 private:
  Params params_;
};

/// input: float32 [N, C, H, W], normalised -> uint8 [N, H, W, C], rounded and clamped.
at::Tensor denormalize(const at::Tensor& input, const Normalization& normalization);

/// The label of each sample: "cat", or "cat 0.70, dog 0.30" for mixed labels; class indices without
/// names. Waits for the device.
std::vector<std::string> label_texts(const Target& target, const std::vector<std::string>& names);

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

}  // namespace composer

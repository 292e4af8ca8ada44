// How large gradients are.
#pragma once

#include "base/params/params.h"
#include "base/time.h"
#include "composer/loop/algorithm.h"

namespace composer {

/// L2 norms of the gradients that the weights were last updated with, unscaled and clipped, every
/// `interval`: grad_l2_norm/step of all together, layer_grad_l2_norm/<group> of the parameters
/// whose names begin with <group>. No step waits for the device.
class GradientMonitor : public Callback {
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
  explicit GradientMonitor(Params params) : params_(params) {}

  void batch_end(const State& state, Logger& logger, RunControl& control) override;
  void epoch_end(const State& state, Logger& logger, RunControl& control) override;

 private:
  void log_norms(const State& state, Logger& logger) const;

  Params params_;
};

/// "layer1.0" of "layer1.0.conv1.weight" with depth 2; the module's own name where that has fewer
/// parts.
std::string parameter_group(const std::string& name, int64_t depth);

}  // namespace composer

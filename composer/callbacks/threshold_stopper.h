// Ends a run that is good enough.
#pragma once

#include <optional>
#include <string>

#include "base/params/params.h"
#include "composer/loop/algorithm.h"
#include "nn/network/metrics.h"

namespace composer {

/// Ends the run once a metric of the evaluation has reached `threshold`: from below, or of losses
/// from above.
class ThresholdStopper : public Callback {
 public:
  struct Params {
    std::string monitor = "metrics/eval/Accuracy";
    double threshold = 0;
    void fields(auto&& f) {
      f("monitor", monitor, "metric of the evaluation; of losses the smaller is the better");
      f("threshold", threshold, "what is enough, for instance 0.94", required);
    }
    std::string check() const;
  };
  explicit ThresholdStopper(Params params) : params_(std::move(params)) {}

  void init(const State& state, Logger& logger, RunControl& control) override;
  void fit_start(const State& state, Logger& logger, RunControl& control) override;
  void eval_end(const State& state, Logger& logger, RunControl& control) override;
  void fit_end(const State& state, Logger& logger, RunControl& control) override;

  StateDict state_dict() const override;
  void load_state_dict(const StateDict& state) override;

 private:
  bool reached() const;
  void stop_if_reached(RunControl& control) const;

  Params params_;
  std::optional<double> last_;  ///< of the last evaluation
};

}  // namespace composer

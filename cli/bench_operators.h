// What a training step spends on each operator of LibTorch.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <ostream>

#include "composer/loop/algorithm.h"
#include "nn/profiling/conversions.h"
#include "nn/profiling/timer.h"

namespace composer {

/// Sums over `steps` steps.
struct OperatorCosts {
  int64_t steps = 0;
  double seconds = 0;
  RangeTotals operators, ranges;  ///< ranges: of the thread that trains
  int64_t conversions = 0;        ///< as ConversionCounter counts
};

/// Listens to `steps` steps after the warm-up, then looks at the copies of as many more: to look at
/// operators' inputs takes time too.
class OperatorMonitor : public Callback {
 public:
  OperatorMonitor(int64_t warmup, int64_t steps) : warmup_(warmup), steps_(steps) {}
  void batch_end(const State& state, Logger& logger, RunControl& control) override;

  /// That it has to see.
  int64_t batches() const { return warmup_ + 2 * steps_; }
  /// After that many batches.
  const OperatorCosts& costs() const { return costs_; }

 private:
  int64_t warmup_, steps_;
  std::optional<Timer> timer_;
  std::optional<ConversionCounter> conversions_;
  double begin_ = 0;
  OperatorCosts costs_;
};

/// operators, ranges (arrays, the costliest first), outside_operators, conversions: a step.
nlohmann::ordered_json json_of(const OperatorCosts& costs);

void print(const OperatorCosts& costs, std::ostream& out);

}  // namespace composer

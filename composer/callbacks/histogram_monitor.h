// How weights and gradients are spread, for the loggers that draw that.
#pragma once

#include "base/time.h"
#include "composer/loop/algorithm.h"

namespace composer {

/// weights/<parameter> and gradients/<parameter>, every `interval`. No step waits for the device.
class HistogramMonitor : public Callback {
 public:
  explicit HistogramMonitor(Time interval) : interval_(interval) {}

  void batch_end(const State& state, Logger& logger, RunControl& control) override;
  void epoch_end(const State& state, Logger& logger, RunControl& control) override;

 private:
  Time interval_;
};

}  // namespace composer

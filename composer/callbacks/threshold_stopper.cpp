#include "composer/callbacks/threshold_stopper.h"

#include <c10/util/StringUtil.h>

#include "base/log.h"
#include "base/number_text.h"
#include "composer/loop/state.h"
#include "nn/network/metric_sense.h"
#include "nn/state_dict.h"

namespace composer {

std::string ThresholdStopper::Params::check() const {
  auto problems = check_monitor(monitor);
  if (is_share(monitor) && (threshold < 0 || threshold > 1))
    problems += "threshold: must be in [0, 1], as " + monitor + " is a share, not " +
                c10::str(threshold) +
                (threshold > 1 && threshold <= 100
                     ? " (" + c10::str(threshold) + " % is " + c10::str(threshold / 100) + ")"
                     : "") +
                "\n";
  return problems;
}

void ThresholdStopper::init(const State& state, Logger&, RunControl&) {
  check_is_evaluated("callbacks.threshold_stopper.monitor", params_.monitor,
                     state.model->metric_names(), state.evaluation_sets);
}

void ThresholdStopper::fit_start(const State&, Logger&, RunControl& control) {
  stop_if_reached(control);
}

void ThresholdStopper::eval_end(const State& state, Logger&, RunControl& control) {
  const auto found = state.eval_metrics.find(params_.monitor);
  if (found == state.eval_metrics.end()) return;  // another set's, or a signal ended it
  last_ = found->second;
  stop_if_reached(control);
}

void ThresholdStopper::fit_end(const State&, Logger&, RunControl&) {
  if (!last_)
    log::warn("callbacks.threshold_stopper: had no effect: the run has had no evaluation");
  else if (!reached())
    log::info("threshold_stopper: " + params_.monitor + " is " + number_text(*last_, 4) +
              ", the threshold " + number_text(params_.threshold, 4) + " was not reached");
}

bool ThresholdStopper::reached() const {
  if (!last_) return false;
  return smaller_is_better(params_.monitor) ? *last_ <= params_.threshold
                                            : *last_ >= params_.threshold;
}

void ThresholdStopper::stop_if_reached(RunControl& control) const {
  if (reached())
    control.request_stop("threshold_stopper: " + params_.monitor + " is " + number_text(*last_, 4) +
                         ", the threshold " + number_text(params_.threshold, 4));
}

StateDict ThresholdStopper::state_dict() const {
  if (!last_) return {};
  return {{}, {{"monitor", params_.monitor}, {"last", *last_}}};
}

void ThresholdStopper::load_state_dict(const StateDict& state) {
  const auto* last = state.find<double>("last");
  const auto* monitor = state.find<std::string>("monitor");
  if (last != nullptr && monitor != nullptr && *monitor == params_.monitor) last_ = *last;
}

}  // namespace composer

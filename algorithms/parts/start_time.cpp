#include "algorithms/parts/start_time.h"

#include "base/log.h"
#include "composer/loop/state.h"

namespace composer {

double share_of_run(const RunLength& run_length, const Time& time) {
  if (time.unit == TimeUnit::duration) return time.value;
  const auto total = run_length.total_batches();
  return total ? run_length.batches(time) / static_cast<double>(*total) : 0;
}

bool reached(const State& state, const Time& time) {
  if (time.unit == TimeUnit::duration) return state.elapsed() >= time.value;
  return static_cast<double>(state.run_length.position(state.time)) >=
         state.run_length.batches(time);
}

void warn_if_never(const State& state, const std::string& key, const Time& time) {
  if (share_of_run(state.run_length, time) >= 1)
    log::warn(key + ": " + time.str() + " is not before the end of the run, so it never begins");
}

void warn_if_longer(const State& state, const std::string& key, const Time& time) {
  if (share_of_run(state.run_length, time) > 1)
    log::warn(key + ": " + time.str() + " is longer than the run");
}

std::string check_start(const std::string& key, const Time& time) {
  const bool too_late = time.unit == TimeUnit::duration && time.value > 1;
  return time.unit == TimeUnit::second ? key + ": must be in ep, ba, sp or dur\n"
         : too_late                    ? key + ": must be at most 1dur\n"
                                       : "";
}

std::string check_ep_or_ba(const std::string& key, const Time& time) {
  const bool counted = time.unit == TimeUnit::epoch || time.unit == TimeUnit::batch;
  return counted ? "" : key + ": must be in ep or ba\n";
}

}  // namespace composer

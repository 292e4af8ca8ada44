#include "algorithms/start_time.h"

#include "composer/state.h"

namespace composer {

bool reached(const State& state, const Time& time) {
  if (time.unit == TimeUnit::duration) return state.elapsed() >= time.value;
  return static_cast<double>(state.time.batch) >= state.schedule.batches(time);
}

std::string check_start(const std::string& key, const Time& time) {
  const bool too_late = time.unit == TimeUnit::duration && time.value > 1;
  return time.unit == TimeUnit::second ? key + ": must be in ep, ba, sp or dur\n"
         : too_late                    ? key + ": must be at most 1dur\n"
                                       : "";
}

}  // namespace composer

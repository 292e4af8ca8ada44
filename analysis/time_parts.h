// Where the time of a run went.
#pragma once

#include <string>
#include <vector>

#include "analysis/run.h"

namespace composer {

struct TimePart {
  enum class Kind {
    waiting,
    forward,
    backward,
    communication,
    optimizer,
    algorithm,
    evaluation,
    checkpoint,
    other
  };
  Kind kind;
  std::string name;  ///< for people
  double seconds;
};

/// The sums of what a run logged as time/<part> (RunTimes), in the order of a step. What callbacks
/// took is one part. Empty where nothing is logged.
std::vector<TimePart> time_parts_of(const Run& run);

/// Which rank the others waited for, of a run of several.
struct Straggler {
  int64_t rank;
  double share;   ///< of the times that were logged, in which it was the slowest
  double excess;  ///< seconds a batch that it worked longer than the mean, in these
};
std::vector<Straggler> stragglers_of(const Run& run);

/// Bars of parts, one a run that has any, and a table of them; empty where no run has.
std::string time_section(const std::vector<Run>& runs);

}  // namespace composer

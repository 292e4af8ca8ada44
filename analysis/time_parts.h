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

/// The sums of the seconds that a run logged as time/<part> (RunTimes), in the order of a step. All
/// callbacks are one part. Empty if nothing is logged.
std::vector<TimePart> time_parts_of(const Run& run);

/// A rank that the other ranks of a run waited for.
struct Straggler {
  int64_t rank;
  double share;   ///< share of the log's entries in which it was the slowest rank
  double excess;  ///< mean seconds a batch over the mean rank in these entries
};
std::vector<Straggler> stragglers_of(const Run& run);

/// A bar per run that has parts, and a table of the parts; empty if no run has parts.
std::string time_section(const std::vector<Run>& runs);

}  // namespace composer

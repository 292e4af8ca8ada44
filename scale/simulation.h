// A training of many GPUs, event by event: what the formulas of step_time.h and failures.h leave
// out shows here, and without noise both agree.
#pragma once

#include <cstdint>
#include <vector>

#include "scale/collective.h"
#include "scale/failures.h"
#include "scale/step_work.h"

namespace composer {

struct SimulatedJob {
  StepParts step;
  Cluster cluster;
  bool overlap = true;
  double load_seconds = 0;  ///< of a GPU's loader, for a batch; 0: it costs nothing
  int64_t prefetch = 2;     ///< batches that it keeps ready
  double spread = 0;        ///< standard deviation of a GPU's own time in a step, a share of it
  std::vector<double> slower = {};          ///< factors of the first GPUs' own times
  std::vector<double> slower_network = {};  ///< factors of the first machines' network times
  FailureModel failures = {};
  int64_t checkpoint_every = 0;  ///< steps; 0: none
};

struct SimulatedRun {
  double seconds = 0;           ///< from the first step to the end of the last
  double seconds_per_step = 0;  ///< after the first
  double exposed = 0;           ///< seconds a step that the mean GPU waited for transfers
  double waited_for_data = 0;   ///< seconds a step, of the mean GPU
  int64_t failures = 0;
  int64_t steps_done_again = 0;
};

/// Each GPU takes batches from its loader and goes through the stages of stages_of(). It sends
/// parts of each bucket to the next GPU of its machine's ring as soon as it has them and the one
/// before is through; machines pass parts on around a ring or along a tree, whichever
/// all_reduce_seconds() chooses. What else GPUs send each other begins once all that take part are
/// there, and ends for all at once. A failure of any GPU puts all back to the last checkpoint.
/// Draws depend on the seed, the step and the GPU alone.
SimulatedRun simulate(const SimulatedJob& job, int64_t steps, uint64_t seed);

}  // namespace composer

// A discrete-event simulation of a training on many GPUs. It shows the effects that the formulas of
// step_time.h leave out; without noise both agree.
#pragma once

#include <cstdint>
#include <vector>

#include "scale/step_time.h"

namespace composer {

struct SimulatedJob {
  StepParts step;
  Cluster cluster;
  bool overlap = true;
  double load_seconds = 0;  ///< time of a GPU's loader for a batch; 0: loading costs nothing
  int64_t prefetch = 2;     ///< batches that the loader keeps ready
  double spread = 0;        ///< standard deviation of a GPU's time in a step, as a share of it
  std::vector<double> slower = {};          ///< factors on the first GPUs' times
  std::vector<double> slower_network = {};  ///< factors on the first machines' network times
  FailureModel failures = {};
  int64_t checkpoint_every = 0;  ///< steps between checkpoints; 0: no checkpoints
};

struct SimulatedRun {
  double seconds = 0;           ///< from the first step to the end of the last
  double seconds_per_step = 0;  ///< after the first
  double exposed = 0;           ///< mean seconds a step that a GPU waited for transfers
  double waited_for_data = 0;   ///< mean seconds a step that a GPU waited for data
  int64_t failures = 0;
  int64_t steps_done_again = 0;
};

/// Each GPU takes batches from its loader and goes through the stages of stages_of(). It sends
/// parts of each bucket to the next GPU of its machine's ring as soon as it has them and the one
/// before is through; machines pass parts on around a ring or along a tree, whichever
/// all_reduce_seconds() chooses. Other transfers begin once all their members have joined, and end
/// for all at once. A failure of any GPU sets all back to the last checkpoint. Random draws depend
/// only on the seed, the step and the GPU.
SimulatedRun simulate(const SimulatedJob& job, int64_t steps, uint64_t seed);

}  // namespace composer

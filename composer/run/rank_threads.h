// How many threads a rank computes and loads with.
#pragma once

#include <cstdint>
#include <string>

#include "base/run_context.h"
#include "composer/recipe/options.h"

namespace composer {

struct RankThreads {
  int64_t compute, loader;

  bool operator==(const RankThreads&) const = default;
};

/// Of a rank that has so many cores for itself: their sum is at most that, of which loading gets up
/// to num_workers: all but one where a GPU computes, else a quarter. With one core the training
/// thread loads.
RankThreads share_cores(int64_t cores, int64_t num_workers, bool gpu);

/// For a rank of that place: its share of the processors that the ranks of a machine with these
/// limits may use together, its quota included; at least 1.
int64_t cores_of_rank(const RankEnvironment& environment, const MachineLimits& limits);

/// Of the process as one of the ranks of its machine, which share the cores that it may use;
/// alone, what LibTorch and dataloader.num_workers say, but no more computing ones than its
/// container's quota lets run. OMP_NUM_THREADS says how many compute, always.
RankThreads rank_threads(const TrainerOptions& options, const RunContext& context);

/// Makes LibTorch compute with that many. Where a quota decides, a line says so, once.
void use_rank_threads(const TrainerOptions& options, const RunContext& context);

/// Of a process that trains nothing: LibTorch computes with no more threads than the limits of this
/// process let run, or as many as OMP_NUM_THREADS says.
void heed_machine_limits();

/// What a quota that is narrower than the machine makes of a rank's threads, for people; empty
/// where there is none.
std::string quota_text(const RankThreads& threads, const RankEnvironment& environment,
                       const MachineLimits& limits);

}  // namespace composer

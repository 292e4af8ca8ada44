// The numbers of compute and loader threads of a rank.
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

/// Divides the cores of a rank: loading gets at most num_workers, and at most all but one core with
/// a GPU, else a quarter; the rest computes. With one core the training thread loads.
RankThreads share_cores(int64_t cores, int64_t num_workers, bool gpu);

/// A rank's share of the processors that the ranks of its machine may use together, the quota
/// included; at least 1.
int64_t cores_of_rank(const RankEnvironment& environment, const MachineLimits& limits);

/// The threads of this process. Several ranks of a machine share its cores. A single one has
/// LibTorch's number of compute threads, limited by the container's quota, and
/// dataloader.num_workers loader threads. OMP_NUM_THREADS always decides the number of compute
/// threads.
RankThreads rank_threads(const TrainerOptions& options, const RunContext& context);

/// Sets LibTorch's number of threads. Logs once if a quota decides.
void use_rank_threads(const TrainerOptions& options, const RunContext& context);

/// For a process that does not train: limits LibTorch's threads to the machine limits of this
/// process, or to OMP_NUM_THREADS.
void heed_machine_limits();

/// A message about a quota that limits a rank's threads; empty without such a quota.
std::string quota_text(const RankThreads& threads, const RankEnvironment& environment,
                       const MachineLimits& limits);

}  // namespace composer

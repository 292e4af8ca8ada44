// How many threads a rank computes and loads with.
#pragma once

#include <cstdint>

#include "composer/options.h"

namespace composer {

struct RankThreads {
  int64_t compute, loader;

  bool operator==(const RankThreads&) const = default;
};

/// Of a rank that has so many cores for itself: their sum is at most that, of which loading gets up
/// to num_workers: all but one where a GPU computes, else a quarter. With one core the training
/// thread loads.
RankThreads share_cores(int64_t cores, int64_t num_workers, bool gpu);

/// Of this process as one of the ranks of its machine, which share the cores that it may use;
/// alone, what LibTorch and dataloader.num_workers say. OMP_NUM_THREADS says how many compute,
/// always.
RankThreads rank_threads(const TrainerOptions& options);

/// Makes LibTorch compute with that many.
void use_rank_threads(const TrainerOptions& options);

}  // namespace composer

#include "composer/rank_threads.h"

#include <ATen/Parallel.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>

#include "composer/cuda.h"
#include "composer/distributed/place.h"

namespace composer {
namespace {

/// That the scheduler lets this process use.
int64_t allowed_cores() {
  cpu_set_t cores;
  return ::sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

bool user_sets_compute() { return std::getenv("OMP_NUM_THREADS") != nullptr; }

}  // namespace

RankThreads share_cores(int64_t cores, int64_t num_workers, bool gpu) {
  const int64_t room = gpu ? cores - 1 : std::max<int64_t>(cores / 4, cores > 1 ? 1 : 0);
  const int64_t loader = std::min(num_workers, room);
  return {std::max<int64_t>(cores - loader, 1), loader};
}

RankThreads rank_threads(const TrainerOptions& options) {
  const auto place = place_of_process();
  const int64_t num_workers = options.dataloader.num_workers;
  if (place.local_size == 1) return {at::get_num_threads(), num_workers};
  const int64_t cores = place.has_own_cores ? allowed_cores() : allowed_cores() / place.local_size;
  const bool gpu = options.device != "cpu" && open_cuda().gpus > 0;
  auto threads = share_cores(std::max<int64_t>(cores, 1), num_workers, gpu);
  if (user_sets_compute()) threads.compute = at::get_num_threads();
  return threads;
}

void use_rank_threads(const TrainerOptions& options) {
  const auto threads = rank_threads(options);
  if (threads.compute != at::get_num_threads())
    at::set_num_threads(static_cast<int>(threads.compute));
}

}  // namespace composer

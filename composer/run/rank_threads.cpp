#include "composer/run/rank_threads.h"

#include <ATen/Parallel.h>

#include <atomic>

#include "base/log.h"
#include "base/number_text.h"
#include "nn/device/cuda.h"

namespace composer {
namespace {

bool user_sets_compute() { return std::getenv("OMP_NUM_THREADS") != nullptr; }

/// The compute threads of a process that shares its processors with no other rank.
int64_t threads_without_ranks(const MachineLimits& limits) {
  const int64_t threads = at::get_num_threads();
  return user_sets_compute() ? threads : std::min(threads, usable_processors(limits));
}

/// The limits of all ranks of the machine together. If ranks are bound to cores, the scheduler's
/// limit is that of one rank; the quota is that of all.
MachineLimits limits_of_all(const RankEnvironment& environment, MachineLimits limits) {
  if (environment.has_own_cores) limits.allowed_processors *= environment.local_size;
  return limits;
}

void compute_with(int64_t threads) {
  if (threads != at::get_num_threads()) at::set_num_threads(static_cast<int>(threads));
}

}  // namespace

RankThreads share_cores(int64_t cores, int64_t num_workers, bool gpu) {
  const int64_t room = gpu ? cores - 1 : std::max<int64_t>(cores / 4, cores > 1 ? 1 : 0);
  const int64_t loader = std::min(num_workers, room);
  return {std::max<int64_t>(cores - loader, 1), loader};
}

int64_t cores_of_rank(const RankEnvironment& environment, const MachineLimits& limits) {
  return std::max<int64_t>(
      usable_processors(limits_of_all(environment, limits)) / environment.local_size, 1);
}

RankThreads rank_threads(const TrainerOptions& options, const RunContext& context) {
  const auto& [environment, limits] = context;
  const int64_t num_workers = options.dataloader.num_workers;
  if (environment.local_size == 1) return {threads_without_ranks(limits), num_workers};
  const bool gpu = options.device != "cpu" && open_cuda().gpus > 0;
  auto threads = share_cores(cores_of_rank(environment, limits), num_workers, gpu);
  if (user_sets_compute()) threads.compute = at::get_num_threads();
  return threads;
}

void use_rank_threads(const TrainerOptions& options, const RunContext& context) {
  const auto threads = rank_threads(options, context);
  compute_with(threads.compute);
  static std::atomic<bool> told = false;
  if (const auto text = quota_text(threads, context.environment, context.limits);
      !text.empty() && !told.exchange(true))
    log::info(text);
}

void heed_machine_limits() { compute_with(threads_without_ranks(read_machine_limits())); }

std::string quota_text(const RankThreads& threads, const RankEnvironment& environment,
                       const MachineLimits& limits) {
  const int64_t allowed = limits_of_all(environment, limits).allowed_processors;
  const auto& quota = limits.processor_quota;
  if (!quota || *quota >= static_cast<double>(allowed)) return {};
  const auto ranks = std::to_string(environment.local_size);
  return "processors: the quota of the container is the time of " + number_text(*quota, 1) +
         " of " + std::to_string(allowed) + ": " +
         (environment.local_size == 1 ? "" : "each of " + ranks + " ranks has ") +
         std::to_string(threads.compute) + " compute and " + std::to_string(threads.loader) +
         " loader threads";
}

}  // namespace composer

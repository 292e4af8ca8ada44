#include "algorithms/progressive_batch_size.h"

#include <numeric>

#include "algorithms/parts/schedule.h"
#include "base/error.h"
#include "composer/logging/logger.h"
#include "composer/loop/state.h"
#include "nn/optimization/optimizer.h"

namespace composer {
namespace {

int64_t largest_divisor(int64_t number, int64_t limit) {
  int64_t divisor = std::clamp<int64_t>(limit, 1, std::max<int64_t>(number, 1));
  while (number % divisor != 0) --divisor;
  return divisor;
}

double scale(double elapsed, const ProgressiveBatchSize::Params& params) {
  return grown_scale(elapsed, params.initial_scale, params.delay_fraction,
                     params.finetune_fraction);
}

}  // namespace

int64_t batch_size_at(double elapsed, int64_t batch_size,
                      const ProgressiveBatchSize::Params& params) {
  const double parts = std::min(std::round(1 / scale(elapsed, params)), 1e9);
  return batch_size / largest_divisor(batch_size, static_cast<int64_t>(parts));
}

int64_t updates_of(int64_t samples, int64_t batch_size) {
  return largest_divisor(samples, samples / batch_size);
}

std::string ProgressiveBatchSize::Params::check() const {
  if (finetune_fraction == 1) return "finetune_fraction: must be below 1, to divide any batch\n";
  return check_shares(delay_fraction, finetune_fraction);
}

void ProgressiveBatchSize::fit_start(State& state) {
  const int64_t full = state.run_length.batch_size;
  if (batch_size_at(0, full, params_) < full) return;
  throw UserError(
      "algorithms.progressive_batch_size: no whole number from 2 to " +
      std::to_string(std::llround(1 / params_.initial_scale)) + " divides train_batch_size " +
      std::to_string(full) +
      ", so no batch would be divided; take a train_batch_size that is a multiple of 2, "
      "or a smaller initial_scale");
}

void ProgressiveBatchSize::batch_start(State& state) {
  const auto shares = state.ranks.of_samples().gather(state.batch.samples());
  const auto samples = std::accumulate(shares.begin(), shares.end(), int64_t{0});
  const int64_t size = batch_size_at(state.elapsed(), state.run_length.batch_size, params_);
  // Each rank has a part of every update.
  state.updates = std::min(updates_of(samples, size), std::ranges::min(shares));
  const auto part = static_cast<double>(samples / state.updates);
  state.logger->log("progressive_batch_size/batch_size", part);
  if (!params_.scale_lr) return;
  state.optimizer->scale_lr_until_set(1 / static_cast<double>(state.updates));
}

std::vector<std::pair<std::string, double>> ProgressiveBatchSize::planned(
    const State& state) const {
  const int64_t size = batch_size_at(state.elapsed(), state.run_length.batch_size, params_);
  return {{"progressive_batch_size/batch_size", static_cast<double>(size)}};
}

}  // namespace composer

#include "algorithms/sync_batchnorm.h"

#include "base/log.h"
#include "composer/loop/state.h"
#include "nn/network/spatial_parallel.h"
#include "nn/network/synced_norm.h"

namespace composer {
namespace {

/// This rank and the ranks whose values differ from its values. Ranks that divide images hold the
/// same values after layers that no longer divide them.
Ranks with_other_values(const Ranks& all, const at::Tensor& input) {
  const auto* const divided = SpatialParallel::current();
  if (divided == nullptr) return all;
  const auto known = divided->find(input);
  return known && known->held == SpatialParallel::Held::rows ? all : all.of_samples();
}

}  // namespace

at::Tensor SyncBatchNorm2d::forward(const at::Tensor& input, const at::Tensor& residual,
                                    Activation activation) {
  if (!is_training() || ranks_.alone()) return BatchNorm2d::forward(input, residual, activation);
  const auto normalized =
      synced_batch_norm(input, weight, bias, running_mean, running_var,
                        {.eps = eps_, .momentum = take_up_batch(), .training = true},
                        with_other_values(ranks_, input));
  return followed_in_place(op::converted(normalized, input), residual, activation);
}

std::string SyncBatchNorm2d::why_separate() const {
  return ranks_.alone() ? "" : "by the batch of all ranks";
}

std::string SyncBatchNorm2d::describe() const {
  return "SyncBatchNorm2d(" + std::to_string(channels_) + ")";
}

std::vector<Replacement> apply_sync_batchnorm(Block& model, const Ranks& ranks) {
  return replace_batch_norms<SyncBatchNorm2d>(model, "sync_batchnorm", ranks);
}

Compatibility SyncBatchNorm::compatibility() {
  return {.excludes = {{"ghost_batchnorm",
                        "one normalises by less than a rank's share of the batch, the other by "
                        "more"}}};
}

void SyncBatchNorm::init(State& state) {
  replacements_ = apply_sync_batchnorm(*state.model, state.ranks);
  log_count(state, "sync_batchnorm/num_new_layers", "sync_batchnorm: replaced", "layers");
  if (state.ranks.alone())
    log::info("sync_batchnorm: with one rank it is plain batch normalisation");
}

}  // namespace composer

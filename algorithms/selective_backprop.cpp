#include "algorithms/selective_backprop.h"

#include <ATen/core/grad_mode.h>

#include <numeric>

#include "algorithms/parts/whole_batch.h"
#include "composer/loop/state.h"
#include "nn/device/device.h"
#include "nn/device/snapshot.h"

namespace composer {
namespace {

at::Tensor reduced(const at::Tensor& images, double scale) {
  if (scale == 1) return images;
  const auto side = [&](int64_t full) {
    return std::max<int64_t>(static_cast<int64_t>(static_cast<double>(full) * scale), 1);
  };
  return at::upsample_bilinear2d(images, {side(images.size(2)), side(images.size(3))},
                                 /*align_corners=*/false, scale, scale);
}

at::Tensor losses_of(State& state, double scale_factor) {
  const int64_t first_sample = state.first_sample;
  std::vector<at::Tensor> losses;
  const int64_t smallest = std::ranges::min(state.ranks.gather(state.batch.samples()));
  for (const auto& piece : state.batch.split(std::min(state.grad_accum, smallest))) {
    losses.push_back(sample_losses(state.network(), piece, scale_factor));
    state.first_sample += piece.samples();
  }
  state.first_sample = first_sample;
  return at::cat(losses);
}

}  // namespace

at::Tensor sample_losses(const Network& network, const Batch& batch, double scale_factor) {
  const at::NoGradGuard no_grad;
  Snapshot buffers(network.model().buffers());
  const auto logits = network.forward(reduced(batch.input, scale_factor));
  auto losses = network.loss(logits, batch.target, Over::sample);
  buffers.restore();
  return losses;
}

// The largest of log(weight) + Gumbel noise are a draw without replacement. Only ranks are drawn,
// so no loss has to leave its device.
at::Tensor drawn_ranks(int64_t n, double keep, Random& random) {
  std::vector<double> keys(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    const double percentile = (static_cast<double>(i) + 0.5) / static_cast<double>(n);
    keys[static_cast<size_t>(i)] =
        (1 / keep - 1) * std::log(percentile) - std::log(-std::log(random.uniform()));
  }
  constexpr double rounding = 1e-9;
  const auto kept =
      std::max<int64_t>(static_cast<int64_t>(static_cast<double>(n) * keep + rounding), 1);
  std::vector<int64_t> ranks(keys.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  std::ranges::stable_sort(ranks, std::greater{},
                           [&](int64_t rank) { return keys[static_cast<size_t>(rank)]; });
  ranks.resize(static_cast<size_t>(std::min(kept, n)));
  std::ranges::sort(ranks);
  return at::tensor(ranks);
}

Batch select_by_loss(const Batch& batch, const at::Tensor& losses, const at::Tensor& ranks) {
  const auto by_loss = losses.argsort(/*stable=*/true, 0, /*descending=*/false);
  const auto ranked = by_loss.index_select(0, copy_to(losses.device(), ranks));
  const auto samples = std::get<0>(ranked.sort());
  return {pick(batch.input, 0, samples), batch.target.at_places(samples)};
}

std::string SelectiveBackprop::Params::check() const {
  std::string problems = start < end ? "" : "end: must be above start\n";
  problems += keep < 1 ? "" : "keep: must be below 1: nothing would be left out\n";
  problems += interrupt != 1 ? "" : "interrupt: must not be 1: every batch would be left whole\n";
  return problems;
}

bool SelectiveBackprop::active(double elapsed, int64_t batch_in_epoch, const Params& params) {
  const bool whole = params.interrupt > 0 && (batch_in_epoch + 1) % params.interrupt == 0;
  return elapsed >= params.start && elapsed < params.end && params.keep < 1 && !whole;
}

void SelectiveBackprop::after_dataloader(State& state) {
  if (!active(state.elapsed(), state.time.batch_in_epoch, params_)) return;
  Random random(state.seed, "selective_backprop.ranks", static_cast<uint64_t>(state.first_sample),
                static_cast<uint64_t>(state.time.batch));
  const auto ranks = drawn_ranks(state.batch.samples(), params_.keep, random);
  const auto losses = losses_of(state, params_.scale_factor);
  state.ranks.of_rows().broadcast(losses);  // equal ones up to rounding, which would be enough
  state.batch = select_by_loss(state.batch, losses, ranks);
}

std::vector<std::pair<std::string, double>> SelectiveBackprop::planned(const State& state) const {
  auto uninterrupted = params_;
  uninterrupted.interrupt = 0;
  const bool selecting = active(state.elapsed(), state.time.batch_in_epoch, uninterrupted);
  return {{"selective_backprop/keep", selecting ? params_.keep : 1}};
}

}  // namespace composer

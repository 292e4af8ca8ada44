#include "algorithms/whitening.h"

#include <ATen/core/grad_mode.h>

#include "algorithms/parts/replaced_layers.h"
#include "base/error.h"
#include "base/log.h"
#include "composer/loop/state.h"
#include "nn/network/surgery.h"

namespace composer {
namespace {

/// Most images whose patches are held at once.
constexpr int64_t images_at_once = 64;

/// The first convolution in the order of the forward pass, and its path. Null where there is none.
std::pair<Conv2d*, std::string> first_conv(Block& model) {
  for (const auto& [path, layer, next, slot] : placed_layers(model))
    if (const auto conv = conv_of(*layer)) return {conv.get(), path};
  return {nullptr, ""};
}

void refuse_groups(const Conv2d& conv) {
  if (conv.options().groups != 1)
    throw UserError("algorithms.whitening: the first convolution has groups; it must have one");
}

/// The sign of the number of largest magnitude in each column of [N, M], as [1, M]. The sign of
/// eigenvectors depends on the processor; multiplied by this sign they are the same everywhere,
/// unless two eigenvalues or two largest magnitudes of a column are equal.
at::Tensor signs_of_largest(const at::Tensor& columns) {
  return columns.gather(0, columns.abs().argmax(0, /*keepdim=*/true)).sign();
}

/// first_conv(), whose weight is no longer trained. Throws UserError if there is none.
std::pair<Conv2d*, std::string> frozen_first_conv(Block& model) {
  auto found = first_conv(model);
  if (found.first == nullptr)
    throw UserError("algorithms.whitening: the model has no convolution; remove it");
  refuse_groups(*found.first);
  found.first->weight.requires_grad_(false);
  return found;
}

}  // namespace

at::Tensor whitening_filters(const at::Tensor& images, std::array<int64_t, 2> kernel,
                             std::array<int64_t, 2> stride, double eps, const Ranks& ranks) {
  const at::NoGradGuard no_grad;
  const int64_t channels = images.size(1), values = channels * kernel[0] * kernel[1];
  auto moments = at::zeros({values, values}, images.options().dtype(at::kDouble));
  auto count = at::zeros({}, moments.options());
  for (int64_t begin = 0; begin < images.size(0); begin += images_at_once) {
    const auto some = images.slice(0, begin, begin + images_at_once).to(at::kFloat);
    const auto patches = at::im2col(some.contiguous(), kernel, {1, 1}, {0, 0}, stride);
    const auto columns = patches.transpose(0, 1).reshape({values, -1});
    moments += at::mm(columns, columns.t());
    count += columns.size(1);
  }
  ranks.sum({moments, count});
  const auto [eigenvalues, either] = at::linalg_eigh((moments / count).cpu());
  const auto eigenvectors = either * signs_of_largest(either);
  const auto scaled = eigenvectors.t() / (eigenvalues.clamp_min(0) + eps).sqrt().unsqueeze(1);
  auto filters = scaled.flip(0)
                     .to(images.device(), at::kFloat)
                     .reshape({values, channels, kernel[0], kernel[1]});
  ranks.broadcast(filters);  // processors round differently
  return filters;
}

void whiten(Conv2d& conv, const at::Tensor& images, double eps, const Ranks& ranks) {
  refuse_groups(conv);
  const auto& o = conv.options();
  const auto filters = whitening_filters(images, o.kernel, o.stride, eps, ranks);
  const at::NoGradGuard no_grad;
  const int64_t count = std::min(filters.size(0), std::max<int64_t>(o.out_channels / 2, 1));
  conv.weight.narrow(0, 0, count).copy_(filters.narrow(0, 0, count));
  const int64_t negatives = std::min(count, o.out_channels - count);
  conv.weight.narrow(0, count, negatives).copy_(-filters.narrow(0, 0, negatives));
}

Compatibility Whitening::compatibility() {
  return {.excludes = {{"no_op_model", "its model has no convolution to fill"},
                       {"weight_standardization",
                        "standardised filters no longer whiten what they are given"}}};
}

void Whitening::init(State& state) {
  std::tie(conv_, path_) = frozen_first_conv(*state.model);
  start_ = conv_->weight.detach().to(at::kCPU, at::kFloat, /*non_blocking=*/false, /*copy=*/true);
}

void Whitening::fit_start(State& state) {
  // Surgery after this algorithm's init may have replaced the layer.
  std::tie(conv_, path_) = frozen_first_conv(*state.model);
}

/// Whether the weight changed since init; false if surgery replaced the layer by one of another
/// shape.
bool Whitening::was_loaded() const {
  const auto now = conv_->weight.detach().to(at::kCPU, at::kFloat);
  return now.sizes() == start_.sizes() && !at::equal(now, start_);
}

void Whitening::after_dataloader(State& state) {
  if (state.time.batch == 0) {
    // Before the first batch all ranks got rank 0's weights, which differ from what others drew.
    const bool loaded = state.ranks.broadcast(was_loaded() ? 1.0 : 0.0) != 0;
    const int64_t samples = std::max<int64_t>(params_.samples - state.first_sample, 0);
    if (loaded)
      log::warn("algorithms.whitening: " + path_ + " was loaded and stays as it is");
    else
      whiten(*conv_, state.batch.input.slice(0, 0, samples), params_.eps, state.ranks);
  }
  if (!conv_->bias.defined() || !conv_->bias.requires_grad()) return;
  if (!reached(state, params_.train_bias)) return;
  conv_->bias.requires_grad_(false);
  conv_->bias.mutable_grad().reset();
}

std::vector<std::string> Whitening::report() const {
  return {path_ + ": " + conv_->describe() + " is filled from the first batch and not trained"};
}

}  // namespace composer

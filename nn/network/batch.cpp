#include "nn/network/batch.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/text.h"
#include "nn/device/device.h"
#include "nn/distributed/ranks.h"

namespace composer {
namespace {

/// `target` with `change` applied to each of its defined tensors.
Target each(Target target, const auto& change) {
  for (auto* tensor : target.tensors())
    if (tensor->defined()) *tensor = change(*tensor);
  return target;
}

}  // namespace

at::Tensor Target::heavier() const {
  return other_classes.defined() ? at::where(other_weight > 0.5, other_classes, classes) : classes;
}

at::Tensor Target::dense(int64_t num_classes) const {
  auto rows = at::one_hot(classes, num_classes).to(at::kFloat);
  if (other_classes.defined()) {
    const auto weight = other_weight.unsqueeze(1);
    rows = rows * (1 - weight) + at::one_hot(other_classes, num_classes).to(at::kFloat) * weight;
  }
  return smoothing == 0 ? rows
                        : rows * (1 - smoothing) + smoothing / static_cast<double>(num_classes);
}

Target Target::slice(int64_t begin, int64_t end) const {
  return each(*this, [&](const at::Tensor& t) { return t.slice(0, begin, end); });
}

Target Target::at_places(const at::Tensor& places) const {
  return each(*this, [&](const at::Tensor& t) { return t.index_select(0, places); });
}

Target Target::to(at::Device device) const {
  return each(*this, [&](const at::Tensor& t) { return copy_to(device, t); });
}

RawBatch RawBatch::to(at::Device device) const {
  return {copy_to(device, images), target.to(device), indices, share};
}

std::vector<Batch> Batch::split(int64_t parts) const {
  const int64_t total = samples();
  parts = std::min(parts, total);
  if (parts <= 1) return {*this};
  std::vector<Batch> pieces;
  for (int64_t i = 0, begin = 0; i < parts; ++i) {
    const int64_t end = begin + total / parts + (i < total % parts ? 1 : 0);
    pieces.push_back({input.slice(0, begin, end), target.slice(begin, end)});
    begin = end;
  }
  return pieces;
}

Share take_share(RawBatch& batch, const Ranks& all) {
  // A single rank's share, or one from a loader opened for another number of ranks, is not used.
  if (batch.share && !all.alone() && batch.share->shares == all.of_samples().size()) {
    if (batch.samples() == batch.share->own) return *batch.share;
    throw RunError("a batch has " + quantity(batch.samples(), "sample") + ", its share " +
                   std::to_string(batch.share->own) +
                   ": a loader that leaves samples out of another's batch resets RawBatch::share");
  }
  const auto of_rows = all.of_rows().gather(batch.samples());
  if (std::ranges::max(of_rows) != std::ranges::min(of_rows))
    throw RunError("ranks that have rows of the same images could not read the same ones: " +
                   std::to_string(std::ranges::min(of_rows)) + " and " +
                   std::to_string(std::ranges::max(of_rows)) + " samples of a batch");
  const auto ranks = all.of_samples();
  const auto counts = ranks.gather(batch.samples());
  const int64_t samples = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  if (samples < ranks.size())
    throw RunError("of a batch only " + quantity(samples, "sample") +
                   " could be read, too few for " + std::to_string(ranks.size()) +
                   (all.of_rows().alone() ? " ranks" : " groups of ranks that share images"));
  if (std::ranges::min(counts) > 0)
    return {std::accumulate(counts.begin(), counts.begin() + ranks.rank(), int64_t{0}),
            batch.samples(), samples, ranks.size()};

  const int64_t begin = share_begin(samples, ranks.rank(), ranks.size());
  const int64_t end = share_begin(samples, ranks.rank() + 1, ranks.size());
  batch.images = ranks.gather_rows(batch.images, counts).slice(0, begin, end);
  batch.indices = at::Tensor();  // no rank needs them any more
  for (auto* part : batch.target.tensors())
    if (part->defined()) *part = ranks.gather_rows(*part, counts).slice(0, begin, end);
  return {begin, end - begin, samples, ranks.size()};
}

}  // namespace composer

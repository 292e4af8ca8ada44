#include "nn/network/batch.h"

#include <algorithm>

#include "nn/device/device.h"

namespace composer {
namespace {

/// The target with every tensor that it has changed.
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

}  // namespace composer

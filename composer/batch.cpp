#include "composer/batch.h"

#include <algorithm>

#include "composer/device.h"

namespace composer {

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
  const auto part = [&](const at::Tensor& t) { return t.defined() ? t.slice(0, begin, end) : t; };
  return {part(classes), part(other_classes), part(other_weight), smoothing};
}

Target Target::to(at::Device device) const {
  const auto moved = [&](const at::Tensor& t) { return t.defined() ? copy_to(device, t) : t; };
  return {moved(classes), moved(other_classes), moved(other_weight), smoothing};
}

RawBatch RawBatch::to(at::Device device) const {
  return {copy_to(device, images), target.to(device)};
}

std::vector<Batch> Batch::split(int64_t parts) const {
  if (parts == 1) return {*this};
  const int64_t total = samples(), size = (total + parts - 1) / parts;
  std::vector<Batch> pieces;
  for (int64_t begin = 0; begin < total; begin += size) {
    const int64_t end = std::min(begin + size, total);
    pieces.push_back({input.slice(0, begin, end), target.slice(begin, end)});
  }
  return pieces;
}

}  // namespace composer

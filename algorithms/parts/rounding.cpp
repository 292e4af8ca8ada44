#include "algorithms/parts/rounding.h"

#include <limits>
#include <vector>

namespace composer {
namespace {

constexpr float kLeastStep = std::numeric_limits<float>::epsilon();

/// `values` with the gradient of `of`.
at::Tensor straight_through(const at::Tensor& values, const at::Tensor& of) {
  return of + (values - of).detach();
}

}  // namespace

at::Tensor rounded_activations(const at::Tensor& values, int64_t bits) {
  if (values.numel() == 0) return values;
  const auto most = static_cast<float>((int64_t{1} << bits) - 1);
  const auto [smallest, largest] = at::aminmax(values.detach().to(at::kFloat));
  const auto low = smallest.clamp_max(0), high = largest.clamp_min(0);
  const auto scale = ((high - low) / most).clamp_min(kLeastStep);
  const auto zero_point = (-(low / scale).round()).clamp(0, most);
  const auto numbers = values.detach().to(at::kFloat);
  const auto codes = ((numbers / scale).round() + zero_point).clamp(0, most);
  return straight_through(((codes - zero_point) * scale).to(values.scalar_type()), values);
}

at::Tensor rounded_weight(const at::Tensor& weight) {
  const auto numbers = weight.detach().to(at::kFloat);
  std::vector<int64_t> rows(static_cast<size_t>(weight.dim()), 1);
  rows[0] = -1;
  const auto scale = (numbers.flatten(1).abs().amax(1) / 127.5F).clamp_min(kLeastStep).view(rows);
  const auto codes = (numbers * scale.reciprocal()).round().clamp(-128, 127);
  return straight_through((codes * scale).to(weight.scalar_type()), weight);
}

}  // namespace composer

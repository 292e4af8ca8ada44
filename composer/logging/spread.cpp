#include "composer/logging/spread.h"

#include <ATen/core/grad_mode.h>

#include <array>
#include <vector>

#include "nn/device/device.h"

namespace composer {
namespace {

/// Numbers of which there are copies at one time.
constexpr int64_t at_once = 1 << 20;

/// In any order, without a copy where they lie side by side.
at::Tensor in_a_row(const at::Tensor& numbers) {
  return numbers.is_non_overlapping_and_dense() ? numbers.as_strided({numbers.numel()}, {1})
                                                : numbers.flatten();
}

at::Tensor finite_doubles(const at::Tensor& numbers) {
  return numbers.to(at::kDouble).nan_to_num(0, 0, 0);
}

/// min, max, sum, sum of squares.
std::array<at::Tensor, 4> summary(const std::vector<at::Tensor>& pieces) {
  std::vector<at::Tensor> lows, highs, sums, squares;
  for (const auto& piece : pieces) {
    const auto x = finite_doubles(piece);
    const auto [low, high] = at::aminmax(x);
    lows.push_back(low), highs.push_back(high);
    sums.push_back(x.sum()), squares.push_back(x.square().sum());
  }
  return {at::stack(lows).min(), at::stack(highs).max(), at::stack(sums).sum(),
          at::stack(squares).sum()};
}

}  // namespace

at::Tensor spread(const at::Tensor& numbers) {
  const at::NoGradGuard no_grad;
  const AnyOrder counted;
  const auto pieces = in_a_row(numbers.detach()).split(at_once);
  const auto [low, high, sum, squares] = summary(pieces);
  const auto width = at::where(high > low, high - low, at::ones_like(high));
  auto counts = at::zeros({spread_parts}, low.options());
  for (const auto& piece : pieces) {
    const auto place = (finite_doubles(piece) - low).div_(width).mul_(spread_parts);
    const auto part = place.to(at::kLong).clamp_(0, spread_parts - 1);
    counts.scatter_add_(0, part, at::ones_like(place));
  }
  const auto count = at::full_like(low, static_cast<double>(numbers.numel()));
  return at::cat({at::stack({low, high, count, sum, squares}), counts});
}

}  // namespace composer

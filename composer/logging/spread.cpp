#include "composer/logging/spread.h"

#include <ATen/core/grad_mode.h>

#include "composer/device.h"

namespace composer {

at::Tensor spread(const at::Tensor& numbers) {
  const at::NoGradGuard no_grad;
  const AnyOrder counted;
  const auto x = numbers.detach().flatten().to(at::kDouble).nan_to_num(0, 0, 0);
  const auto [low, high] = at::aminmax(x);
  const auto width = at::where(high > low, high - low, at::ones_like(high));
  const auto part = ((x - low) / width * spread_parts).to(at::kLong).clamp(0, spread_parts - 1);
  const auto counts =
      at::zeros({spread_parts}, x.options()).scatter_add_(0, part, at::ones_like(x));
  const auto count = at::full_like(low, static_cast<double>(x.numel()));
  return at::cat({at::stack({low, high, count, x.sum(), x.square().sum()}), counts});
}

}  // namespace composer

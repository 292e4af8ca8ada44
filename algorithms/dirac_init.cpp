#include "algorithms/dirac_init.h"

#include <ATen/core/grad_mode.h>

#include "base/error.h"
#include "composer/loop/state.h"

namespace composer {

bool dirac_init(Conv2d& conv) {
  const auto& o = conv.options();
  for (size_t d = 0; d < 2; ++d)
    if (o.kernel[d] % 2 == 0 || o.padding[d] != o.dilation[d] * (o.kernel[d] / 2)) return false;
  if (o.groups != 1) return false;
  const at::NoGradGuard no_grad;
  const int64_t count = std::min(o.in_channels, o.out_channels);
  auto filters = conv.weight.narrow(0, 0, count);
  filters.zero_();
  const auto centre = filters.select(3, o.kernel[1] / 2).select(2, o.kernel[0] / 2);
  centre.diagonal().fill_(1);
  return true;
}

void DiracInit::init(State& state) {
  changes_.clear();
  for (const auto& item : state.model->named_modules()) {
    auto* conv = dynamic_cast<Conv2d*>(item.value().get());
    if (conv == nullptr) continue;
    if (!conv->weight.requires_grad()) continue;  // whitening fills it, or it is frozen
    const auto& kernel = conv->options().kernel;
    if (std::min(kernel[0], kernel[1]) < params_.min_kernel || !dirac_init(*conv)) continue;
    changes_.push_back(item.key() + ": " + conv->describe() + " starts as the identity");
  }
  if (changes_.empty())
    throw UserError(
        "algorithms.dirac_init: the model has no convolution with an odd kernel that keeps the "
        "image's size; remove it, or lower min_kernel");
}

}  // namespace composer

#include "nn/optimization/skipped_step.h"

namespace composer {

std::vector<at::Tensor> zero_if(const at::Tensor& found_inf, std::vector<at::Tensor> tensors) {
  if (!found_inf.defined()) return tensors;
  const auto skip = found_inf != 0;
  for (auto& tensor : tensors) tensor = at::where(skip, at::zeros({}, tensor.options()), tensor);
  return tensors;
}

at::Tensor zero_if(const at::Tensor& found_inf, const at::Tensor& finite) {
  return found_inf.defined() ? finite * (1 - found_inf) : finite;
}

void multiply_unless(const at::Tensor& found_inf, const std::vector<at::Tensor>& tensors,
                     double factor) {
  if (!found_inf.defined()) return at::_foreach_mul_(tensors, factor);
  const auto skip = found_inf != 0;
  const auto masked = at::full({}, factor, found_inf.options()).masked_fill(skip, 1.0);
  at::_foreach_mul_(tensors, masked);
}

void advance_unless(const at::Tensor& found_inf, const std::vector<at::Tensor>& steps) {
  if (found_inf.defined())
    at::_foreach_add_(steps, 1 - found_inf);
  else
    at::_foreach_add_(steps, 1);
}

at::Tensor count_unless(const at::Tensor& found_inf, const std::vector<at::Tensor>& steps) {
  advance_unless(found_inf, steps);
  return at::stack(steps).to(at::kDouble).clamp_min(1);
}

}  // namespace composer

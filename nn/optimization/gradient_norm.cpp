#include "nn/optimization/gradient_norm.h"

namespace composer {

at::Tensor global_norm(const std::vector<at::Tensor>& gradients, const Ranks& ranks,
                       at::Device device) {
  if (ranks.alone()) return at::linalg_vector_norm(at::stack(at::_foreach_norm(gradients, 2)), 2);
  const auto square = gradients.empty()
                          ? at::zeros({}, at::TensorOptions(device).dtype(at::kDouble))
                          : global_norm(gradients).to(at::kDouble).square();
  ranks.sum(square);
  return square.sqrt();
}

void clip_global_norm(const std::vector<at::Tensor>& gradients, double limit, const Ranks& ranks,
                      at::Device device) {
  if (gradients.empty() && ranks.alone()) return;
  const auto factor = at::clamp_max(limit / (global_norm(gradients, ranks, device) + 1e-6), 1.0);
  if (!gradients.empty()) at::_foreach_mul_(gradients, factor.to(gradients[0].scalar_type()));
}

}  // namespace composer

#include "composer/optimization/gradient_norm.h"

namespace composer {

at::Tensor global_norm(const std::vector<at::Tensor>& gradients) {
  return at::linalg_vector_norm(at::stack(at::_foreach_norm(gradients, 2)), 2);
}

void clip_global_norm(const std::vector<at::Tensor>& gradients, double limit) {
  if (gradients.empty()) return;
  at::_foreach_mul_(gradients, at::clamp_max(limit / (global_norm(gradients) + 1e-6), 1.0));
}

}  // namespace composer

#include "composer/model.h"

#include "composer/loss.h"

namespace composer {

at::Tensor Model::loss(const at::Tensor& logits, const Target& target) {
  return soft_cross_entropy(logits, target);
}

}  // namespace composer

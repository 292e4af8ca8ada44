#include "composer/network/model.h"

#include "composer/network/loss.h"

namespace composer {

at::Tensor Model::loss(const at::Tensor& logits, const Target& target) {
  return soft_cross_entropy(logits, target);
}

}  // namespace composer

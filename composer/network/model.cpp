#include "composer/network/model.h"

namespace composer {

at::Tensor Model::loss(const at::Tensor& logits, const Target& target, Over over) {
  return soft_cross_entropy(logits, target, over);
}

}  // namespace composer

#include "composer/network/network.h"

#include <ATen/record_function.h>

#include "composer/error.h"

namespace composer {

at::Tensor Network::forward(const at::Tensor& images) const {
  RECORD_USER_SCOPE("forward");
  const Autocast autocast(precision_, device_);
  try {
    return model_.forward(images);
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const c10::Error& error) {
    throw RunError("the model fails on a batch of shape " + c10::str(images.sizes()) + ": " +
                   error.what_without_backtrace());
  }
}

at::Tensor Network::loss(const at::Tensor& logits, const Target& target, Over over) const {
  const Autocast autocast(precision_, device_);
  return model_.loss_to_train(logits, target, over);
}

}  // namespace composer

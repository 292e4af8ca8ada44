#include "composer/network/network.h"

#include <ATen/record_function.h>

#include "composer/device.h"
#include "composer/distributed/divided_weights.h"
#include "composer/error.h"
#include "composer/network/divided_pass.h"

namespace composer {

at::Tensor Network::forward(const at::Tensor& images) const {
  RECORD_USER_SCOPE("forward");
  const Autocast autocast(precision_, device_);
  try {
    if (!rows_.alone()) return forward_by_rows(model_, images, rows_);
    if (weights_ == nullptr) return model_.forward(images);
    weights_->begin_pass();
    const auto outputs = model_.forward(images);
    weights_->end_pass();
    return outputs;
  } catch (const c10::Error& error) {
    if (is_out_of_memory(error)) throw;
    throw RunError("the model fails on a batch of shape " + c10::str(images.sizes()) + ": " +
                   error.what_without_backtrace());
  }
}

at::Tensor Network::loss(const at::Tensor& logits, const Target& target, Over over) const {
  const Autocast autocast(precision_, device_);
  return model_.loss_to_train(logits, target, over);
}

}  // namespace composer

#include "nn/network/network.h"

#include <ATen/record_function.h>

#include "nn/device/exception_text.h"
#include "nn/network/sharded_parameters.h"
#include "nn/network/spatial_parallel.h"

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
  } catch (...) {
    rethrow_of(model_.title(), (model_.is_training() ? "forward" : "forward of an evaluation") +
                                   (" on a batch of shape " + c10::str(images.sizes())));
  }
}

at::Tensor Network::loss(const at::Tensor& logits, const Target& target, Over over) const {
  const Autocast autocast(precision_, device_);
  try {
    return model_.loss_to_train(logits, target, over);
  } catch (...) {
    rethrow_of(model_.title(), "loss");
  }
}

}  // namespace composer

// channels_last: keeps weights and images in channels-last (NHWC) memory order, in which
// convolutions run fastest on GPUs with tensor cores and on CPUs with oneDNN. Changes no value,
// shape or name.
#pragma once

#include "algorithms/parts/unrestricted_algorithm.h"

namespace torch::nn {
class Module;
}

namespace composer {

/// Gives every 4-D parameter and buffer of `module` channels-last strides, in place: tensors keep
/// their identity, so that an optimizer that holds them stays valid.
void apply_channels_last(torch::nn::Module& module);

/// Runs last at init, to include the layers that surgery put into the model.
class ChannelsLast : public UnrestrictedAlgorithm {
 public:
  Order order(Event) const override { return Order::last; }
  void init(State& state) override;
};

}  // namespace composer

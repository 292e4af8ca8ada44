// channels_last: keeps weights and images in channels-last (NHWC) memory order, in which
// convolutions run fastest on GPUs with tensor cores and on CPUs with oneDNN. Changes no value,
// shape or name.
#pragma once

#include <string>

#include "composer/loop/algorithm.h"

namespace torch::nn {
class Module;
}

namespace composer {

/// Gives every 4-D parameter and buffer of `module` channels-last strides, in place: tensors keep
/// their identity, so that an optimizer that holds them goes on.
void apply_channels_last(torch::nn::Module& module);

/// Runs last at init, so that it sees layers that surgery put in place.
class ChannelsLast : public Algorithm {
 public:
  Order order(Event) const override { return Order::last; }
  std::string prevents_graph_capture() const override { return {}; }
  std::string prevents_sharding() const override { return {}; }
  void init(State& state) override;
};

}  // namespace composer

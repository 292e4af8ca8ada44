#include "algorithms/channels_last.h"

#include <torch/nn/module.h>

#include "composer/loop/state.h"

namespace composer {
namespace {

// Not contiguous(ChannelsLast): that keeps a 1x1 convolution's weight as it is, whose strides then
// differ from its gradient's and take multi-tensor operations off their fast path.
void convert(at::Tensor tensor) {
  if (tensor.dim() != 4 || tensor.suggest_memory_format() == at::MemoryFormat::ChannelsLast) return;
  const auto source = tensor.detach();
  tensor.set_data(at::empty_like(source, at::MemoryFormat::ChannelsLast).copy_(source));
}

}  // namespace

void apply_channels_last(torch::nn::Module& module) {
  for (const auto& parameter : module.parameters()) convert(parameter);
  for (const auto& buffer : module.buffers()) convert(buffer);
}

void ChannelsLast::init(State& state) {
  apply_channels_last(*state.model);
  state.memory_format = at::MemoryFormat::ChannelsLast;
}

}  // namespace composer

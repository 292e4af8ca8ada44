#include "models/airbench.h"

#include <ATen/core/grad_mode.h>

#include "base/error.h"
#include "models/network_declaration.h"
#include "models/residual_blocks.h"
#include "nn/network/layers.h"

namespace composer {
namespace {

constexpr int64_t whitened_channels = 24;

std::shared_ptr<Layer> norm(int64_t channels, double momentum) {
  auto layer = std::make_shared<BatchNorm2d>(channels, /*eps=*/1e-12, momentum);
  layer->weight.requires_grad_(false);
  return layer;
}

class ConvGroup final : public Block {
 public:
  ConvGroup(int64_t in_channels, int64_t channels, const Airbench::Params& params)
      : silu_(params.activation == "silu") {
    add("conv1", conv(in_channels, channels, 3));
    add<MaxPool2d>("pool", Pool2dOptions{.kernel = {2, 2}, .stride = {2, 2}});
    add("norm1", norm(channels, params.norm_momentum));
    for (int64_t i = 2; i <= params.group_convs; ++i) {
      add("conv" + std::to_string(i), conv(channels, channels, 3));
      add("norm" + std::to_string(i), norm(channels, params.norm_momentum));
    }
  }

  at::Tensor forward(const at::Tensor& input) override {
    auto& slot = slots();
    const auto first = activated(slot[2], slot[1](slot[0](input)));
    const auto second = activated(slot[4], slot[3](first));
    return slot.size() == 5 ? second : activated(slot[6], slot[5](second), first);
  }
  /// A group with GELU is described by its name alone, as in older checkpoints.
  std::string describe() const override { return silu_ ? "ConvGroup: SiLU" : name(); }

 private:
  /// activation(norm(input) + residual)
  at::Tensor activated(const Slot& norm, const at::Tensor& input,
                       const at::Tensor& residual = {}) const {
    const auto sum = norm(input, residual, silu_ ? Activation::none : Activation::gelu);
    return silu_ ? op::silu(sum) : sum;
  }

  bool silu_;
};

/// The largest value of each channel.
class GlobalMaxPool2d final : public Layer {
 public:
  at::Tensor forward(const at::Tensor& input) override {
    const std::array<int64_t, 2> all{input.size(2), input.size(3)};
    return op::flatten(op::max_pool2d(input, {.kernel = all, .stride = all}));
  }
  std::string describe() const override { return "GlobalMaxPool2d"; }
};

}  // namespace

Airbench::Airbench(const Params& params)
    : NamedNetwork("airbench", params.num_classes, int64_t{1} << params.widths.size()),
      logit_scale_(params.logit_scale) {
  const at::NoGradGuard no_grad;
  auto whiten = std::make_shared<Conv2d>(Conv2dOptions{.in_channels = 3,
                                                       .out_channels = whitened_channels,
                                                       .kernel = {2, 2},
                                                       .bias = params.whitening_bias});
  if (whiten->bias.defined()) whiten->bias.zero_();
  add("whiten", std::static_pointer_cast<Layer>(whiten));
  add<Gelu>("gelu");
  int64_t channels = whitened_channels;
  for (size_t i = 0; i < params.widths.size(); ++i) {
    add<ConvGroup>("layer" + std::to_string(i + 1), channels, params.widths[i], params);
    channels = params.widths[i];
  }
  add<GlobalMaxPool2d>("pool");
  auto head = std::make_shared<Linear>(channels, params.num_classes, /*bias=*/false);
  if (params.unit_head) head->weight.div_(head->weight.std());
  add("head", std::static_pointer_cast<Layer>(head));
}

at::Tensor Airbench::forward(const at::Tensor& input) {
  const int64_t least = stride() + 1;
  if (input.size(1) != 3 || std::min(input.size(2), input.size(3)) < least)
    throw UserError("model.airbench: takes images of 3 channels and at least " +
                    std::to_string(least) + " x " + std::to_string(least) + " pixels, not of " +
                    std::to_string(input.size(1)) + " and " + std::to_string(input.size(2)) +
                    " x " + std::to_string(input.size(3)));
  return op::scale(through_slots(input), logit_scale_);
}

NetworkDeclaration airbench_network() {
  return declare_network<Airbench>("airbench", "the network of the CIFAR-10 speedruns", {32, 32});
}

}  // namespace composer

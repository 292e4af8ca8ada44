// The copies of a training step that only change a tensor's type or layout, to the number.
#include "nn/profiling/conversions.h"

#include <catch2/catch.hpp>

#include "models/resnet.h"
#include "models/resnet_cifar.h"
#include "nn/device/cpu_instructions.h"
#include "nn/network/network.h"
#include "nn/network/weight_gradient.h"
#include "nn/optimization/optimizers.h"

namespace composer::conversions_test {
namespace {

/// In the third step on one batch of channels-last images, the weights channels-last too.
int64_t conversions_of_step(Model& model, int64_t pixels, Precision precision,
                            int64_t microbatches = 1) {
  for (auto& parameter : model.parameters())
    if (parameter.dim() == 4)
      parameter.set_data(at::empty_like(parameter.detach(), at::MemoryFormat::ChannelsLast)
                             .copy_(parameter.detach()));
  Sgd optimizer({.lr = 0.01, .momentum = 0.9, .nesterov = true});
  optimizer.attach(model);
  const Network network(model, precision);
  const auto images = at::randn({2, 3, pixels, pixels}).contiguous(at::MemoryFormat::ChannelsLast);
  const Target target{.classes = at::arange(2), .other_classes = {}, .other_weight = {}};
  const auto step = [&] {
    optimizer.zero_grad();
    for (int64_t i = 0; i < microbatches; ++i)
      network.loss(network.forward(images), target).backward();
    optimizer.step();
  };
  step(), step();
  const ConversionCounter counter;
  step();
  return counter.count();
}

TEST_CASE("a step converts no tensor twice", "[models][conversions]") {
  if (!at::globalContext().hasMKLDNN() || !has_instructions("avx512_bw")) {
    WARN("skipped: LibTorch's bf16 convolutions are other ones on this machine");
    return;
  }
  ResNet resnet50({.model_name = "resnet50", .num_classes = 10, .initializers = {}});
  ResNetCifar resnet56({.model_name = "resnet56", .num_classes = 10, .initializers = {}});
  // The gradient of the pooled features; those of weights, from oneDNN's order to that of the
  // weights, but for 1x1's.
  constexpr int64_t layouts50 = 1 + 17, layouts56 = 1 + 55;
  CHECK(conversions_of_step(resnet50, 64, Precision::fp32) == layouts50);
  CHECK(conversions_of_step(resnet56, 32, Precision::fp32) == layouts56);
  // Also the images, three within LibTorch's mean over a feature map, the logits and their
  // gradient, and both gradients of the linear layer to float32. Those of convolutions are float32,
  // in the weights' order, where they are our own.
  constexpr int64_t types = 1 + 3 + 2 + 2;
  const bool own = tile_instructions().has_value();
  const int64_t all50 = types + (own ? 1 : layouts50 + 53),
                all56 = types + (own ? 1 : layouts56 + 57);
  CHECK(conversions_of_step(resnet50, 64, Precision::amp_bf16) == all50);
  CHECK(conversions_of_step(resnet56, 32, Precision::amp_bf16) == all56);
  // None of a weight, in any of them.
  CHECK(conversions_of_step(resnet50, 64, Precision::amp_bf16, 2) == 2 * all50);
}

}  // namespace
}  // namespace composer::conversions_test

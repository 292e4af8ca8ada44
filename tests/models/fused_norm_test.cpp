#include "nn/network/fused_norm.h"

#include <catch2/catch.hpp>
#include <optional>

#include "models/resnet_cifar.h"

namespace composer::fused_norm_test {
namespace {

/// Weights and statistics after three steps of gradient descent.
std::vector<at::Tensor> trained(bool fused) {
  std::optional<Unfused> unfused;
  if (!fused) unfused.emplace();
  at::manual_seed(1);
  ResNetCifar model({.model_name = "resnet_20", .initializers = {"kaiming_normal"}});
  const auto images = at::randn({8, 3, 32, 32}).contiguous(at::MemoryFormat::ChannelsLast);
  const Target target{.classes = at::arange(8), .other_classes = {}, .other_weight = {}};
  for (int step = 0; step < 3; ++step) {
    model.zero_grad();
    model.loss(model.forward(images), target).backward();
    const at::NoGradGuard no_grad;
    for (auto& parameter : model.parameters()) parameter.sub_(parameter.grad(), 0.01);
  }
  auto all = model.parameters();
  for (const auto& buffer : model.buffers()) all.push_back(buffer.to(at::kFloat));
  return all;
}

TEST_CASE("training by fused batch norms is training by their parts", "[models]") {
  const auto fused = trained(true), parts = trained(false);
  REQUIRE(fused.size() == parts.size());
  for (size_t i = 0; i < fused.size(); ++i) {
    CAPTURE(i);
    CHECK(at::allclose(fused[i], parts[i], 1e-5, 1e-5));
  }
}

}  // namespace
}  // namespace composer::fused_norm_test

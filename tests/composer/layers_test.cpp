#include "nn/network/layers.h"

#include <torch/csrc/autograd/function.h>

#include <catch2/catch.hpp>

#include "nn/network/layer.h"
#include "tests/gpu.h"

namespace composer::layers_test {
namespace {

class Unit : public ResidualBlock {
 public:
  Unit() : bn_(add<BatchNorm2d>("bn", 3)) {}
  at::Tensor branch(const at::Tensor& input) override { return input; }
  Slot& last() override { return bn_; }
  at::Tensor shortcut(const at::Tensor& input) override { return input; }

 private:
  Slot& bn_;
};

class Identity : public Layer {
 public:
  at::Tensor forward(const at::Tensor& input) override { return input; }
  std::string describe() const override { return "Identity"; }
};

class Nothing : public ResidualBlock {
 public:
  at::Tensor branch(const at::Tensor& input) override { return input; }
  Slot& last() override { return last_; }
  at::Tensor shortcut(const at::Tensor& input) override { return input; }

 private:
  Slot& last_ = add<Identity>("last");
};

TEST_CASE("a residual block leaves its input alone and has the gradients of its formula",
          "[layers]") {
  Unit unit;
  const auto input = at::randn({4, 3, 5, 5}), upstream = at::randn({4, 3, 5, 5});
  auto x = input.clone().requires_grad_(true);
  const auto output = unit.forward(x);
  output.backward(upstream);
  CHECK(at::equal(x.detach(), input));

  auto y = input.clone().requires_grad_(true);
  const auto expected =
      (at::batch_norm(y, {}, {}, {}, {}, /*training=*/true, 0.1, 1e-5, false) + y).relu();
  expected.backward(upstream);
  CHECK(at::allclose(output, expected, 1e-5, 1e-6));
  CHECK(at::allclose(x.grad(), y.grad(), 1e-5, 1e-6));
}

TEST_CASE("a residual that is the input itself is not overwritten", "[layers]") {
  Nothing block;
  const auto input = at::randn({2, 3});
  const auto before = input.clone();
  CHECK(at::equal(block.forward(input), (before * 2).relu()));
  CHECK(at::equal(input, before));
}

TEST_CASE("BatchNorm2d counts batches on the CPU, wherever it is", "[layers][gpu]") {
  for (const auto device : test::devices()) {
    BatchNorm2d norm(2);
    norm.forward(at::ones({4, 2, 3, 3}));
    norm.to(device);
    CHECK(norm.running_mean.device().type() == device.type());
    norm.forward(at::ones({4, 2, 3, 3}, device));
    const auto count = norm.named_buffers()["num_batches_tracked"];
    CHECK(count.is_cpu());
    CHECK(count.scalar_type() == at::kLong);
    CHECK(count.item<int64_t>() == 2);
  }
}

TEST_CASE("BatchNorm2d follows the batch statistics only in training", "[layers]") {
  BatchNorm2d norm(2, 1e-5, 0.25);
  const auto input = at::randn({8, 2, 4, 4}) * 3 + 1;
  norm.forward(input);
  norm.forward(input);
  const auto mean = input.mean(at::IntArrayRef{0, 2, 3});
  const auto variance = input.var(at::IntArrayRef{0, 2, 3}, /*unbiased=*/true);
  const double kept = 0.75 * 0.75;
  CHECK(at::allclose(norm.running_mean, mean * (1 - kept), 1e-4, 1e-5));
  CHECK(at::allclose(norm.running_var, variance * (1 - kept) + kept, 1e-4, 1e-5));
  CHECK(norm.num_batches_tracked.item<int64_t>() == 2);

  norm.eval();
  const auto output = norm.forward(input);
  CHECK(norm.num_batches_tracked.item<int64_t>() == 2);
  const std::vector<int64_t> shape{1, 2, 1, 1};
  const auto expected =
      (input - norm.running_mean.view(shape)) / (norm.running_var.view(shape) + 1e-5).sqrt();
  CHECK(at::allclose(output, expected, 1e-4, 1e-5));
}

TEST_CASE("parameters have PyTorch's names and default ranges", "[layers]") {
  const Conv2d conv({.in_channels = 8, .out_channels = 6, .kernel = {3, 5}, .groups = 2});
  CHECK(conv.weight.sizes() == at::IntArrayRef{6, 4, 3, 5});
  const double bound = 1 / std::sqrt(4 * 3 * 5);
  CHECK(conv.weight.abs().max().item<double>() <= bound);
  CHECK(conv.weight.abs().max().item<double>() > 0.9 * bound);
  CHECK(conv.named_parameters().contains("weight"));
  CHECK(conv.named_parameters().contains("bias"));
  CHECK(conv.weight.requires_grad());

  const Linear linear(16, 4, /*bias=*/false);
  CHECK(linear.named_parameters().keys() == std::vector<std::string>{"weight"});
  CHECK(linear.weight.abs().max().item<double>() <= 0.25);

  const BatchNorm2d norm(3);
  CHECK(norm.named_buffers().keys() ==
        std::vector<std::string>{"running_mean", "running_var", "num_batches_tracked"});
}

TEST_CASE("a copied convolution shares its tensors", "[layers]") {
  const Conv2d conv({.in_channels = 2, .out_channels = 2, .kernel = {1, 1}});
  const Conv2d copy(conv);
  CHECK(copy.weight.is_same(conv.weight));
  CHECK(copy.named_parameters()["weight"].is_same(conv.weight));
}

TEST_CASE("layers describe themselves", "[layers]") {
  CHECK(Conv2d({.in_channels = 64, .out_channels = 128, .kernel = {3, 3}, .stride = {2, 2}})
            .describe() == "Conv2d(64, 128, 3x3, stride 2)");
  CHECK(MaxPool2d({.kernel = {3, 3}, .stride = {2, 2}}).describe() == "MaxPool2d(3x3, stride 2)");
  CHECK(Linear(5, 3).describe() == "Linear(5, 3)");
}

TEST_CASE("ReLU overwrites its input only when asked to", "[layers]") {
  auto input = at::tensor({-1.0F, 2.0F});
  ReLU().forward(input);
  CHECK(at::equal(input, at::tensor({-1.0F, 2.0F})));
  ReLU(/*in_place=*/true).forward(input);
  CHECK(at::equal(input, at::tensor({0.0F, 2.0F})));
}

TEST_CASE("pooling gives rows of features", "[layers]") {
  const auto input = at::arange(2 * 3 * 4 * 4, at::kFloat).view({2, 3, 4, 4});
  CHECK(at::allclose(AdaptiveAvgPool2d().forward(input), input.mean(at::IntArrayRef{2, 3})));
  CHECK(at::equal(AdaptiveAvgPool2d(4).forward(input.contiguous(at::MemoryFormat::ChannelsLast)),
                  input.flatten(1)));
}

TEST_CASE("pooling into cells is PyTorch's adaptive pooling", "[layers]") {
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast})
    for (const auto& [height, width] : {std::pair(12, 8), std::pair(4, 4), std::pair(7, 8)}) {
      CAPTURE(height, width);
      const auto images = at::randn({2, 3, height, width}).contiguous(format);
      const auto upstream = at::randn({2, 3 * 4 * 4});
      auto x = images.clone().requires_grad_(true), y = images.clone().requires_grad_(true);
      const auto output = AdaptiveAvgPool2d(4).forward(x);
      const auto expected = at::adaptive_avg_pool2d(y, {4, 4}).flatten(1);
      bool adaptive = false;
      for (auto node = output.grad_fn(); node; node = node->next_edge(0).function) {
        adaptive = adaptive || node->name().find("Adaptive") != std::string::npos;
        if (node->num_outputs() == 0) break;
      }
      output.backward(upstream);
      expected.backward(upstream);
      CHECK(at::allclose(output, expected, 1e-5, 1e-6));
      CHECK(at::allclose(x.grad(), y.grad(), 1e-5, 1e-6));
      CHECK(adaptive == (height % 4 != 0));
    }
}

TEST_CASE("a layer that would give no pixels says where it is and what it needs", "[layers]") {
  using Catch::Matchers::Equals;
  const std::array<int64_t, 2> two{2, 2}, three{3, 3};
  const auto conv = std::make_shared<Conv2d>(Conv2dOptions{3, 4, three, {1, 1}, {0, 1}});
  const auto pool = std::make_shared<MaxPool2d>(Pool2dOptions{.kernel = two, .stride = two});
  using Layers = std::vector<std::shared_ptr<Layer>>;
  Sequential network({std::make_shared<ReLU>(), std::make_shared<Sequential>(Layers{conv, pool})});
  CHECK(network.forward(at::zeros({1, 3, 4, 2})).sizes() == at::IntArrayRef{1, 4, 1, 1});
  CHECK_THROWS_WITH(network.forward(at::zeros({1, 3, 2, 9})),
                    Equals("layer 1.0: Conv2d(3, 4, 3x3) gets 2x9 pixels and needs 3x1; give the "
                           "network larger images"));
  CHECK_THROWS_WITH(network.forward(at::zeros({1, 3, 3, 9})),
                    Equals("layer 1.1: MaxPool2d(2x2, stride 2) gets 1x9 pixels and needs 2x2; "
                           "give the network larger images"));
  MaxPool2d rounded({.kernel = two, .stride = two, .ceil_mode = true});
  CHECK(rounded.forward(at::zeros({1, 3, 1, 3})).sizes() == at::IntArrayRef{1, 3, 1, 2});
}

TEST_CASE("BatchNorm2d refuses one value a channel in training, as PyTorch does", "[layers]") {
  Sequential network({std::make_shared<BatchNorm2d>(3)});
  const auto& norm = dynamic_cast<BatchNorm2d&>(*network.slots()[0].layer());
  const auto one = at::randn({1, 3, 1, 1});
  CHECK_THROWS_WITH(network.forward(one), Catch::StartsWith("layer 0: BatchNorm2d(3) gets one "
                                                            "value a channel in training") &&
                                              Catch::Contains("drop_last: true"));
  CHECK(norm.num_batches_tracked.item<int64_t>() == 0);
  CHECK(norm.running_var.isfinite().all().item<bool>());
  CHECK_NOTHROW(network.forward(at::randn({1, 3, 1, 2})));
  CHECK_NOTHROW(network.forward(at::randn({2, 3, 1, 1})));
  network.eval();
  CHECK_NOTHROW(network.forward(one));
}

}  // namespace
}  // namespace composer::layers_test

#include "inference/runtime.h"

#include <ATen/Parallel.h>

#include <catch2/catch.hpp>
#include <iostream>
#include <thread>

#include "base/error.h"
#include "inference/fold.h"
#include "inference/fused_operation.h"
#include "inference/onednn.h"
#include "networks.h"
#include "nn/network/normalize.h"

using Catch::Matchers::Contains;

namespace composer::runtime_test {
namespace {

/// A 1 x 1 convolution of three channels to as many, for graphs by hand.
class SmallNet : public Model {
 public:
  explicit SmallNet(std::function<at::Tensor(Slot& conv, const at::Tensor& x)> forward)
      : conv_(add<Conv2d>("conv",
                          Conv2dOptions{.in_channels = 3, .out_channels = 3, .kernel = {1, 1}})),
        forward_(std::move(forward)) {
    eval();
  }
  at::Tensor forward(const at::Tensor& input) override { return forward_(conv_, input); }
  int64_t num_classes() const override { return 3; }

 private:
  Slot& conv_;
  std::function<at::Tensor(Slot&, const at::Tensor&)> forward_;
};

TEST_CASE("a trained network runs as it was trained, with any number of images",
          "[inference][runtime]") {
  for (const auto& given : test::network_cases()) {
    CAPTURE(given.name);
    const auto model = test::settled(given);
    const Runtime runtime(test::trained(given, *model));
    for (const int64_t count : {1, 3}) {
      const auto images = test::random_images(given, count);
      const at::NoGradGuard no_grad;
      const auto logits = runtime.logits(images);
      CHECK(test::relative(logits, model->forward(images)) < 1e-5);
      CHECK(logits.equal(runtime.logits(images)));
    }
  }
}

TEST_CASE("bf16 is near", "[inference][runtime]") {
  if (!find_operator<bool()>("mkldnn::_is_mkldnn_bf16_supported").call()) {
    std::cout << "skipped: this processor has no bf16\n";
    return;
  }
  for (const auto& given : test::network_cases()) {
    CAPTURE(given.name);
    const auto model = test::settled(given);
    const Runtime runtime(test::trained(given, *model), RunPrecision::bf16);
    const auto images = test::random_images(given, 2);
    const at::NoGradGuard no_grad;
    const auto logits = runtime.logits(images), expected = model->forward(images);
    CHECK(logits.scalar_type() == at::kFloat);
    const double distance = test::relative(logits, expected);
    CHECK(distance < 0.05);
    CHECK(distance > 1e-6);
  }
}

TEST_CASE("images of a large batch pass side by side, with the same logits",
          "[inference][runtime]") {
  const auto given = test::network_cases()[3];
  const auto network = test::trained(given, *test::settled(given));
  const Runtime runtime(network);
  const int64_t count = 4 * at::get_num_threads() + 1;
  const auto images = test::random_images(given, count);
  const auto logits = runtime.logits(images);
  REQUIRE(logits.size(0) == count);
  for (int64_t i = 0; i < count; ++i)
    CHECK(test::relative(logits.narrow(0, i, 1), runtime.logits(images.narrow(0, i, 1))) < 1e-5);
  CHECK_THROWS_AS(runtime.logits(images.narrow(2, 0, 8)), UserError);
  CHECK(runtime.logits(images.narrow(0, 0, 0)).sizes() == at::IntArrayRef({0, logits.size(1)}));
}

TEST_CASE("bytes are normalised as the preparation says", "[inference][runtime]") {
  const auto given = test::network_cases()[3];
  const auto model = test::settled(given);
  const auto network = test::trained(given, *model);
  const Runtime runtime(network);
  const auto bytes = at::randint(256, {2, 32, 32, 3}, at::kByte);
  const auto numbers =
      normalize(bytes, network.preparation.normalization, at::MemoryFormat::Contiguous);
  CHECK(test::relative(runtime.logits(bytes), runtime.logits(numbers)) < 1e-6);
}

TEST_CASE("images of another kind are refused", "[inference][runtime]") {
  const auto given = test::network_cases()[3];
  const Runtime runtime(test::trained(given, *test::settled(given)));
  for (const auto& images :
       {at::zeros({1, 3, 32, 31}), at::zeros({3, 32, 32}), at::zeros({1, 3, 32, 32}, at::kByte),
        at::zeros({1, 32, 32, 1}, at::kByte), at::zeros({1, 3, 32, 32}, at::kDouble)})
    CHECK_THROWS_WITH(runtime.logits(images), Contains("takes 32 x 32 images of 3 channels"));
}

TEST_CASE("what follows a layer is computed in its pass", "[inference][runtime]") {
  const auto given = test::network_cases()[1];  // ResNet-50
  const auto graph = folded(test::trained(given, *test::settled(given)).graph);
  size_t layers = 0, sums = 0, activations = 0;
  for (const auto& fused : fused_operations(graph, {})) {
    const auto& operation = graph.operations[fused.operation];
    CHECK(operation.kind != OperationKind::add);
    CHECK(operation.kind != OperationKind::relu);
    layers += has_constant_weights(graph, operation);
    sums += fused.addend.has_value();
    activations += fused.activation.has_value();
  }
  CHECK(layers == 54);
  CHECK(sums == 16);
  CHECK(activations == 49);
}

TEST_CASE("a sum does not overwrite what others still need", "[inference][runtime]") {
  const std::vector<std::function<at::Tensor(Slot&, const at::Tensor&)>> passes{
      // The user's images.
      [](Slot& conv, const at::Tensor& x) { return op::mean(op::add(conv(x), x)); },
      // What is read again.
      [](Slot& conv, const at::Tensor& x) {
        const auto y = op::sigmoid(x);
        return op::mean(op::multiply(op::relu(op::add(y, conv(y))), y));
      },
      [](Slot& conv, const at::Tensor& x) {
        const auto y = op::sigmoid(x), z = op::gelu(x);
        return op::mean(op::multiply(op::add(conv(z), y), y));
      },
      // What lies in another value's memory.
      [](Slot& conv, const at::Tensor& x) {
        const auto y = op::sigmoid(x);
        const auto flat = op::flatten(y);
        return op::cat({op::mean(op::add(conv(x), y)), flat});
      },
      // What has another shape.
      [](Slot& conv, const at::Tensor& x) {
        return op::mean(op::add(conv(x), op::unsqueeze(op::mean(x))));
      },
      // The same twice, and a sum of two layers.
      [](Slot& conv, const at::Tensor& x) {
        const auto y = conv(x);
        return op::mean(op::relu(op::add(y, y)));
      },
      [](Slot& conv, const at::Tensor& x) {
        const auto y = conv(op::sigmoid(x)), z = conv(op::gelu(x));
        return op::mean(op::relu(op::add(y, z)));
      },
  };
  for (size_t i = 0; i < passes.size(); ++i) {
    CAPTURE(i);
    SmallNet net(passes[i]);
    TrainedNetwork network;
    const auto images = at::randn({2, 3, 4, 4}).contiguous(at::MemoryFormat::ChannelsLast);
    network.graph = record(net, images.slice(0, 0, 1));
    network.preparation = {.size = {4, 4}, .normalization = {{0, 0, 0}, {1, 1, 1}}};
    const auto before = images.clone();
    const at::NoGradGuard no_grad;
    CHECK(test::relative(Runtime(network).logits(images), net.forward(before)) < 1e-5);
    CHECK(images.equal(before));
  }
}

TEST_CASE("a network that does not look at its images takes any number", "[inference][runtime]") {
  const auto constant = at::tensor({1.0F, -2.0F, 3.0F}).view({1, 3});
  SmallNet net([&](Slot&, const at::Tensor&) { return op::relu(constant); });
  const auto images = at::randn({40, 3, 4, 4});
  TrainedNetwork network;
  network.graph = record(net, images.slice(0, 0, 1));
  network.preparation = {.size = {4, 4}, .normalization = {{0, 0, 0}, {1, 1, 1}}};
  CHECK(Runtime(network).logits(images).equal(constant.relu().expand({40, 3})));
}

TEST_CASE("several threads run one network at once", "[inference][runtime]") {
  const auto given = test::network_cases()[3];
  const Runtime runtime(test::trained(given, *test::settled(given)));
  std::vector<at::Tensor> images, expected, found(4);
  for (int64_t i = 0; i < 4; ++i) {
    images.push_back(test::random_images(given, i + 1));
    expected.push_back(runtime.logits(images.back()));
  }
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      for (int repeat = 0; repeat < 5; ++repeat) found[i] = runtime.logits(images[i]);
    });
  for (auto& thread : threads) thread.join();
  for (size_t i = 0; i < 4; ++i) CHECK(test::relative(found[i], expected[i]) < 1e-5);
}

}  // namespace
}  // namespace composer::runtime_test

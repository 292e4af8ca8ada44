#include "algorithms/activation_checkpointing.h"

#include <torch/csrc/autograd/autograd.h>

#include <catch2/catch.hpp>
#include <thread>

#include "algorithms/ghost_batchnorm.h"
#include "algorithms/squeeze_excite.h"
#include "algorithms/stochastic_depth.h"
#include "base/error.h"
#include "composer/loop/state.h"
#include "models/airbench.h"
#include "nn/network/fused_norm.h"
#include "nn/network/graph.h"
#include "nn/network/layers.h"
#include "nn/network/precision.h"
#include "nn/network/recompute.h"
#include "tests/algorithms/resnet20.h"
#include "tests/composer/saved_tensors.h"

namespace composer::activation_checkpointing_test {

using Catch::Contains;
using test::resnet20;

namespace {

at::Tensor images() {
  at::manual_seed(3);
  return at::randn({6, 3, 32, 32}).contiguous(at::MemoryFormat::ChannelsLast);
}

void check_same(const at::Tensor& a, const at::Tensor& b, const std::string& name) {
  INFO(name);
  REQUIRE(a.defined() == b.defined());
  if (a.defined()) CHECK(at::equal(a, b));
}

/// One step of both on the same images: outputs, gradients and buffers have the same bits.
void check_same_step(Model& plain, Model& other, Precision precision) {
  at::Tensor losses[2];
  for (auto* model : {&plain, &other}) {
    at::manual_seed(11);
    model->train();
    at::Tensor logits;
    {
      const Autocast autocast(precision, at::kCPU);
      logits = model->forward(images());
    }
    losses[model == &other] = logits.to(at::kFloat).square().sum();
    losses[model == &other].backward();
  }
  check_same(losses[0], losses[1], "loss");
  const auto parameters = other.named_parameters(), buffers = other.named_buffers();
  for (const auto& item : plain.named_parameters())
    check_same(item.value().grad(), parameters[item.key()].grad(), item.key());
  for (const auto& item : plain.named_buffers())
    check_same(item.value(), buffers[item.key()], item.key());
}

/// dropout(conv(x)), by LibTorch's own generator.
class DroppingBlock final : public Block {
 public:
  DroppingBlock()
      : conv_(add<Conv2d>(
            "conv",
            Conv2dOptions{
                .in_channels = 3, .out_channels = 3, .kernel = {3, 3}, .padding = {1, 1}})) {}
  at::Tensor forward(const at::Tensor& input) override {
    return at::dropout(conv_(input), 0.5, is_training());
  }

 private:
  Slot& conv_;
};

class DroppingModel final : public Model {
 public:
  DroppingModel() {
    at::manual_seed(1);
    add<DroppingBlock>("first");
    add<DroppingBlock>("second");
    add<AdaptiveAvgPool2d>("pool");
  }
  at::Tensor forward(const at::Tensor& input) override { return through_slots(input); }
  int64_t num_classes() const override { return 3; }
};

}  // namespace

TEST_CASE("gradients and statistics are the same, bit by bit", "[activation_checkpointing]") {
  const auto precision = GENERATE(Precision::fp32, Precision::amp_bf16);
  const auto every = GENERATE(1, 2);
  const auto plain = resnet20(), other = resnet20();
  const auto blocks = apply_activation_checkpointing(*other, {.layers = {}, .every = every});
  CHECK(blocks.size() == static_cast<size_t>(9 / every));
  check_same_step(*plain, *other, precision);
}

TEST_CASE("with other surgery within the blocks", "[activation_checkpointing]") {
  const auto plain = resnet20(), other = resnet20();
  for (auto* model : {plain.get(), other.get()}) {
    apply_ghost_batchnorm(*model, 2);
    apply_squeeze_excite(*model, {.latent_channels = 4, .min_channels = 16}, 5);
  }
  apply_activation_checkpointing(*other, {});
  check_same_step(*plain, *other, Precision::fp32);
}

TEST_CASE("what a block draws it draws again", "[activation_checkpointing]") {
  DroppingModel plain, other;
  CHECK(apply_activation_checkpointing(other, {.layers = {"first", "second"}, .every = 1}) ==
        std::vector<std::string>{"first", "second"});
  check_same_step(plain, other, Precision::fp32);
  const auto input = images();
  at::Tensor next[2];
  for (auto* model : {&plain, &other}) {
    at::manual_seed(11);
    model->forward(input).sum().backward();
    next[model == &other] = at::rand({4});
  }
  check_same(next[0], next[1], "the draw that follows");
}

TEST_CASE("a block computes step by step again, whichever thread's turn it is",
          "[activation_checkpointing]") {
  struct Notes : Layer {
    Notes() { factor = register_parameter("factor", at::ones({1})); }
    at::Tensor forward(const at::Tensor& input) override {
      unfused.push_back(Unfused::here());
      return input * factor;
    }
    std::string describe() const override { return "Notes"; }
    at::Tensor factor;
    std::vector<bool> unfused;
  };
  const auto layer = std::make_shared<Notes>();
  at::Tensor output;
  {
    const Unfused step_by_step;
    output = recomputed(*layer, images());
  }
  std::thread([&] { output.sum().backward(); }).join();
  CHECK(layer->unfused == std::vector<bool>{true, true});
}

TEST_CASE("blocks keep their inputs and nothing else", "[activation_checkpointing]") {
  const auto plain = resnet20(), other = resnet20();
  apply_activation_checkpointing(*other, {});
  const auto all = test::saved_bytes(*plain, images()), some = test::saved_bytes(*other, images());
  INFO(all << " and " << some << " bytes");
  CHECK(static_cast<double>(some) < 0.35 * static_cast<double>(all));
}

TEST_CASE("without gradients, and in the network's graph, blocks run once",
          "[activation_checkpointing]") {
  const auto plain = resnet20(), other = resnet20();
  apply_activation_checkpointing(*other, {});
  plain->eval(), other->eval();
  const at::NoGradGuard no_grad;
  check_same(plain->forward(images()), other->forward(images()), "logits");
  CHECK(record(*plain, images()).operations.size() == record(*other, images()).operations.size());
}

TEST_CASE("frozen blocks and images with gradients", "[activation_checkpointing]") {
  const auto plain = resnet20(), other = resnet20();
  for (auto* model : {plain.get(), other.get()}) model->freeze({"conv1.*", "bn1.*", "layer1.*"});
  apply_activation_checkpointing(*other, {});
  check_same_step(*plain, *other, Precision::fp32);

  auto input = images().requires_grad_(), same = images().requires_grad_();
  plain->forward(input).sum().backward();
  other->forward(same).sum().backward();
  check_same(input.grad(), same.grad(), "images");
}

TEST_CASE("a pattern chooses blocks; those within others are part of them",
          "[activation_checkpointing]") {
  const auto model = resnet20();
  CHECK(apply_activation_checkpointing(*model, {.layers = {"layer1", "layer?.1"}, .every = 1}) ==
        std::vector<std::string>{"layer1", "layer2.1", "layer3.1"});
  Airbench airbench({});
  CHECK(apply_activation_checkpointing(airbench, {.layers = {"layer*"}, .every = 1}).size() == 3);
}

TEST_CASE("what would choose nothing is refused", "[activation_checkpointing]") {
  Airbench airbench({});
  CHECK_THROWS_WITH(apply_activation_checkpointing(airbench, {}),
                    Contains("no residual block") && Contains("layers: [layer1, layer2, layer3]"));
  const auto model = resnet20();
  CHECK_THROWS_WITH(apply_activation_checkpointing(*model, {.layers = {"conv1"}, .every = 1}),
                    Contains("layers: 'conv1' fits no block"));
  CHECK_THROWS_WITH(apply_activation_checkpointing(*model, {.layers = {}, .every = 10}),
                    Contains("every: 10 leaves none of 9 blocks"));
}

TEST_CASE("a block that hands its input on needs no gradients", "[activation_checkpointing]") {
  State state;
  state.seed = 3;
  const auto draws = std::make_shared<DepthDraws>(DepthDraws{.state = &state, .warmup = {}});
  const auto plain = resnet20(), other = resnet20();
  for (auto* model : {plain.get(), other.get()}) {
    model->freeze({"conv1.*", "bn1.*"});
    apply_stochastic_depth(*model, {.drop_rate = 0.9, .drop_distribution = "uniform"}, draws);
  }
  apply_activation_checkpointing(*other, {});
  for (state.time.batch = 0; state.time.batch < 6; ++state.time.batch) {
    plain->zero_grad(), other->zero_grad();
    check_same_step(*plain, *other, Precision::fp32);
  }
}

TEST_CASE("blocks within one whose depth is drawn", "[activation_checkpointing]") {
  State state;
  const auto draws = std::make_shared<DepthDraws>(DepthDraws{.state = &state, .warmup = {}});
  const auto plain = resnet20(), other = resnet20();
  for (auto* model : {plain.get(), other.get()})
    apply_stochastic_depth(*model, {.drop_rate = 0.1}, draws);
  const auto before = test::saved_bytes(*other, images());
  CHECK(apply_activation_checkpointing(*other, {.layers = {"*.downsample"}, .every = 1}).size() ==
        2);
  CHECK(test::saved_bytes(*other, images()) < before);
  const auto again = resnet20();
  apply_stochastic_depth(*again, {.drop_rate = 0.1}, draws);
  apply_activation_checkpointing(*again, {.layers = {"*.downsample"}, .every = 1});
  check_same_step(*plain, *again, Precision::fp32);
}

TEST_CASE("a layer in two slots of a block has its gradient once", "[activation_checkpointing]") {
  class Twice final : public Block {
   public:
    explicit Twice(const std::shared_ptr<Layer>& layer) {
      add("first", layer), add("second", layer);
    }
    at::Tensor forward(const at::Tensor& input) override { return through_slots(input); }
  };
  class TwiceModel final : public Model {
   public:
    TwiceModel() {
      at::manual_seed(1);
      add("block", std::static_pointer_cast<Layer>(std::make_shared<Twice>(std::make_shared<Conv2d>(
                       Conv2dOptions{.in_channels = 3, .out_channels = 3, .kernel = {1, 1}}))));
      add<AdaptiveAvgPool2d>("pool");
    }
    at::Tensor forward(const at::Tensor& input) override { return through_slots(input); }
    int64_t num_classes() const override { return 3; }
  };
  TwiceModel plain, other;
  apply_activation_checkpointing(other, {.layers = {"block"}, .every = 1});
  check_same_step(plain, other, Precision::fp32);
}

TEST_CASE("what cannot be computed again says so", "[activation_checkpointing]") {
  class Overwriting final : public Block {
   public:
    Overwriting() { add<ReLU>("relu", /*in_place=*/true); }
    at::Tensor forward(const at::Tensor& input) override { return through_slots(input); }
  };
  const auto block = std::make_shared<Overwriting>();
  const auto input = images().requires_grad_() * 1;
  CHECK_THROWS_WITH(recomputed(*block, input), Contains("overwrites its input"));

  const auto model = resnet20();
  apply_activation_checkpointing(*model, {});
  const auto loss = model->forward(images()).sum();
  const auto weight = model->named_parameters()["layer3.2.conv2.weight"];
  const auto gradient = torch::autograd::grad({loss}, {weight}, {}, true, /*create_graph=*/true)[0];
  CHECK_THROWS_WITH(gradient.sum().backward(), Contains("cannot be differentiated again"));
}

}  // namespace composer::activation_checkpointing_test

#include "nn/network/bf16_copy.h"

#include <c10/core/InferenceMode.h>

#include <array>
#include <catch2/catch.hpp>
#include <thread>

#include "nn/distributed/ranks.h"
#include "nn/network/layers.h"
#include "nn/network/precision.h"
#include "nn/optimization/muon.h"
#include "nn/optimization/optimizers.h"
#include "nn/profiling/conversions.h"
#include "tests/composer/wave.h"
#include "tests/ranks.h"

namespace composer::bf16_copy_test {

namespace {

const at::Tensor images = wave({2, 3, 8, 8}, 0, 0.3);

/// A convolution and a linear layer.
class Net : public Block {
 public:
  Net() {
    const at::NoGradGuard no_grad;
    double phase = 0;
    for (const auto& parameter : parameters())
      parameter.copy_(wave(parameter.sizes(), phase++, 0.1));
  }
  at::Tensor forward(const at::Tensor& input) override {
    return fc_(op::flatten(op::relu(conv_(input))));
  }

 private:
  // Dilated: no bf16_conv2d(), on any processor.
  Slot& conv_ = add<Conv2d>(
      "conv",
      Conv2dOptions{.in_channels = 3, .out_channels = 4, .kernel = {3, 3}, .dilation = {2, 2}});
  Slot& fc_ = add<Linear>("fc", 64, 5);
};

/// What Net computes, by LibTorch's autocast alone.
at::Tensor plain_forward(const Net& net, const at::Tensor& input) {
  const auto weights = net.named_parameters();
  const auto features =
      at::conv2d(input, weights["conv.weight"], weights["conv.bias"], /*stride=*/{1, 1},
                 /*padding=*/at::IntArrayRef{0, 0}, /*dilation=*/{2, 2});
  return at::linear(features.relu().flatten(1), weights["fc.weight"], weights["fc.bias"]);
}

at::Tensor in_bf16(const auto& forward) {
  const Autocast autocast(Precision::amp_bf16, at::kCPU);
  return forward();
}

int64_t conversions(const auto& work) {
  const ConversionCounter counter;
  work();
  return counter.count();
}

/// Whether a forward pass takes the weights as they are now.
bool is_right(Net& net) {
  const at::NoGradGuard no_grad;
  return in_bf16([&] { return net.forward(images); }).equal(in_bf16([&] {
    return plain_forward(net, images);
  }));
}

/// Of weights, in a forward pass: the next one needs none.
int64_t casts(Net& net) {
  const auto forward = [&] { in_bf16([&] { return net.forward(images); }); };
  const int64_t all = conversions(forward);
  return all - conversions(forward);
}

void backward(Net& net) {
  for (auto& parameter : net.parameters()) parameter.mutable_grad().reset();
  in_bf16([&] { return net.forward(images); }).to(at::kFloat).square().sum().backward();
}

/// Writes the weights as code that knows nothing of copies does.
class Foreign : public Optimizer {
 public:
  Foreign() : Optimizer({.lr = 0.1}, {}) {}

 protected:
  void update(Update& update) override {
    at::_foreach_add_(update.parameters, update.gradients, -0.1);
  }
};

}  // namespace

TEST_CASE("a weight is rounded once for each of its values", "[bf16_copy]") {
  const auto weight = wave({8, 4, 3, 3}, 0, 0.1).contiguous(at::MemoryFormat::ChannelsLast);
  Bf16Copy copy;
  const void* first = nullptr;
  CHECK(conversions([&] { first = copy.of(weight).const_data_ptr(); }) == 1);
  CHECK(conversions([&] { CHECK(copy.of(weight).const_data_ptr() == first); }) == 0);
  CHECK(copy.of(weight).equal(weight.to(at::kBFloat16)));
  CHECK(copy.of(weight).strides() == weight.strides());

  weight.select(0, 1).zero_();  // through a view
  CHECK(conversions([&] { copy.of(weight); }) == 1);
  CHECK(copy.of(weight).equal(weight.to(at::kBFloat16)));
  CHECK(copy.of(weight).const_data_ptr() == first);

  const auto other = wave({8, 4, 3, 3}, 1, 0.1);
  CHECK(copy.of(other).equal(other.to(at::kBFloat16)));
}

TEST_CASE("what is held of a copy keeps its values", "[bf16_copy]") {
  const auto weight = wave({100}, 0, 0.1);
  Bf16Copy copy;
  const auto before = copy.of(weight), expected = before.clone();
  CHECK(copy.room_for(weight) == nullptr);
  weight.mul_(2);
  CHECK(copy.of(weight).equal(weight.to(at::kBFloat16)));
  CHECK(before.equal(expected));
}

TEST_CASE("memory that takes a weight's place is seen", "[bf16_copy]") {
  const auto weight = wave({100}, 0, 0.1);
  Bf16Copy copy;
  copy.of(weight);
  for (int i = 0; i < 3; ++i) {  // by turns at the same addresses
    const auto version = weight._version();
    weight.set_data(at::zeros({100}));
    weight.set_data(wave({100}, i, 0.2));
    CHECK(weight._version() == version);
    CHECK(copy.of(weight).equal(weight.to(at::kBFloat16)));
  }
}

TEST_CASE("room is there once a copy was asked for and is free", "[bf16_copy]") {
  const auto weight = wave({100}, 0, 0.1);
  Bf16Copy copy;
  CHECK(copy.room_for(weight) == nullptr);
  copy.of(weight);
  CHECK(copy.room_for(weight) != nullptr);
  CHECK(copy.room_for(wave({50}, 0, 0.1)) == nullptr);
  std::fill_n(copy.room_for(weight), 100, at::BFloat16(3));
  copy.filled_for(weight);
  CHECK(conversions([&] { CHECK(copy.of(weight)[7].item<float>() == 3); }) == 0);
}

TEST_CASE("layers compute in bf16 what autocast computes, gradients too", "[bf16_copy]") {
  const auto format = GENERATE(at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast);
  Net net;
  for (auto& parameter : net.parameters())
    if (parameter.dim() == 4) parameter.set_data(parameter.detach().contiguous(format));
  backward(net);
  std::vector<at::Tensor> gradients;
  for (const auto& parameter : net.parameters()) {
    gradients.push_back(parameter.grad());
    CHECK(gradients.back().strides() == parameter.strides());
    parameter.mutable_grad().reset();
  }
  const auto plain = in_bf16([&] { return plain_forward(net, images); });
  plain.to(at::kFloat).square().sum().backward();
  for (size_t i = 0; i < gradients.size(); ++i)
    CHECK(gradients[i].equal(net.parameters()[i].grad()));
  CHECK(is_right(net));
}

TEST_CASE("microbatches, evaluation and frozen layers share a copy", "[bf16_copy]") {
  Net net;
  CHECK(casts(net) == 4);
  CHECK(casts(net) == 0);
  backward(net);
  CHECK(casts(net) == 0);
  {
    const c10::InferenceMode evaluation;
    CHECK(casts(net) == 0);
    net.parameters()[0].mul_(2);
    CHECK(casts(net) == 1);
  }
  CHECK(is_right(net));
  backward(net);
  for (auto& parameter : net.parameters()) parameter.set_requires_grad(false);
  CHECK(casts(net) == 0);
}

TEST_CASE("other precisions take the weight itself", "[bf16_copy]") {
  const auto copy = std::make_shared<Bf16Copy>();
  const auto weight = wave({4, 4}, 0, 0.1).set_requires_grad(true);
  CHECK(autocast_weight(weight, copy).is_same(weight));
  CHECK_FALSE(autocast_weight({}, copy).defined());
  {
    const Autocast half(Precision::amp_fp16, at::kCPU);
    CHECK(autocast_weight(weight, copy).is_same(weight));
  }
  const Autocast bf16(Precision::amp_bf16, at::kCPU);
  CHECK(autocast_weight(weight, copy).scalar_type() == at::kBFloat16);
  const auto computed = weight * 2, wide = weight.detach().to(at::kDouble);
  CHECK(autocast_weight(computed, copy).is_same(computed));
  CHECK(autocast_weight(wide, copy).is_same(wide));
  const c10::InferenceMode inference;
  const auto temporary = weight * 2;
  CHECK(autocast_weight(temporary, copy).is_same(temporary));
}

TEST_CASE("threads may share a network", "[bf16_copy]") {
  Net net;
  const auto expected = in_bf16([&] { return plain_forward(net, images); });
  std::array<at::Tensor, 4> outputs;
  std::vector<std::thread> threads;
  for (auto& output : outputs)
    threads.emplace_back([&] {
      const at::NoGradGuard no_grad;
      output = in_bf16([&] { return net.forward(images); });
    });
  for (auto& thread : threads) thread.join();
  for (const auto& output : outputs) CHECK(output.equal(expected));
}

TEST_CASE("optimizers in one pass write the copies", "[bf16_copy][optimizers]") {
  SgdParams sgd;
  sgd.lr = 1e-3, sgd.momentum = 0.9, sgd.nesterov = true;
  const std::vector<std::shared_ptr<Optimizer>> optimizers{
      std::make_shared<Sgd>(sgd), std::make_shared<DecoupledSgdw>(sgd),
      std::make_shared<AdamW>(AdamParams{}), std::make_shared<DecoupledAdamW>(AdamParams{})};
  for (const auto& optimizer : optimizers) {
    Net net;
    optimizer->attach(net);
    for (int step = 0; step < 3; ++step) {
      backward(net);
      optimizer->step();
      CHECK(casts(net) == 0);
      CHECK(is_right(net));
    }
    optimizer->scale_lr({{"conv.bias", 0.5}});  // makes new groups
    backward(net);
    optimizer->step();
    CHECK(casts(net) == 0);
    optimizer->step(at::ones({}));  // skipped
    CHECK(casts(net) == 0);
    CHECK(is_right(net));
  }
}

TEST_CASE("a step during a pass leaves the pass its weights", "[bf16_copy][optimizers]") {
  Net net, other;
  Sgd optimizer(SgdParams{});
  optimizer.attach(net);
  backward(net);
  backward(other);
  std::vector<at::Tensor> expected;
  for (const auto& parameter : other.parameters()) expected.push_back(parameter.grad());
  const auto output = in_bf16([&] { return net.forward(images); });
  optimizer.step();
  optimizer.zero_grad();
  output.to(at::kFloat).square().sum().backward();
  for (size_t i = 0; i < expected.size(); ++i) CHECK(net.parameters()[i].grad().equal(expected[i]));
  CHECK(is_right(net));
}

TEST_CASE("weights that others write are rounded anew", "[bf16_copy][optimizers]") {
  Net net;
  const auto check = [&](int64_t expected) {
    CHECK(casts(net) == expected);
    CHECK(is_right(net));
  };
  check(4);
  Foreign foreign;
  foreign.attach(net);
  backward(net);
  foreign.step();
  check(4);

  Muon muon(MuonParams{});
  muon.attach(net);
  backward(net);
  muon.step();
  check(1);  // but for what its SGD trains

  const at::NoGradGuard no_grad;
  at::_foreach_mul_(net.parameters(), 0.5);
  check(4);
  net.named_parameters()["fc.bias"].detach().fill_(2);
  check(1);
}

TEST_CASE("weights that come from another rank are rounded anew", "[bf16_copy][ranks]") {
  std::array<bool, 2> right{};
  test::in_ranks(2, [&](const Ranks& ranks) {
    const auto rank = static_cast<size_t>(ranks.rank());
    Net net;
    const at::NoGradGuard no_grad;
    if (ranks.first()) at::_foreach_mul_(net.parameters(), 0.5);
    in_bf16([&] { return net.forward(images); });
    ranks.broadcast(net.parameters());
    right[rank] = is_right(net);
  });
  CHECK(right[0]);
  CHECK(right[1]);
}

TEST_CASE("copies of a layer are right when only one is changed", "[bf16_copy]") {
  Conv2d conv({3, 4, {3, 3}});
  Conv2d copy(conv);
  const auto output = [](Conv2d& layer) { return in_bf16([&] { return layer.forward(images); }); };
  CHECK(output(conv).equal(output(copy)));
  copy.weight = conv.weight.detach() * 2;
  for (int i = 0; i < 2; ++i)
    for (auto* layer : {&conv, &copy})
      CHECK(output(*layer).equal(
          in_bf16([&] { return at::conv2d(images, layer->weight, layer->bias); })));
}

}  // namespace composer::bf16_copy_test

#include "nn/network/cost.h"

#include <catch2/catch.hpp>

#include "nn/network/layers.h"
#include "nn/network/model.h"
#include "tests/composer/saved_tensors.h"

namespace composer::cost_test {
namespace {

/// Convolutions one after another, then what a classifier ends with.
class Chain : public Model {
 public:
  explicit Chain(const std::vector<Conv2dOptions>& convolutions) {
    for (const auto& options : convolutions) {
      add<Conv2d>("conv" + std::to_string(slots().size() / 2 + 1), options);
      add<ReLU>("relu" + std::to_string(slots().size() / 2 + 1));
    }
    add<AdaptiveAvgPool2d>("pool");
    add<Linear>("fc", convolutions.back().out_channels, 2);
  }
  at::Tensor forward(const at::Tensor& input) override { return through_slots(input); }
  int64_t num_classes() const override { return 2; }
};

/// x * sigmoid(conv(mean of x)), then another convolution.
class Gated : public Model {
 public:
  Gated()
      : first(add<Conv2d>("first", Conv2dOptions{3, 4, {3, 3}, {2, 2}})),
        gate(add<Conv2d>("gate", Conv2dOptions{4, 4, {1, 1}})),
        last(add<Conv2d>("last", Conv2dOptions{4, 2, {3, 3}})) {}
  at::Tensor forward(const at::Tensor& input) override {
    const auto x = first(input);
    return op::mean(last(op::multiply(x, op::sigmoid(gate(op::adaptive_avg_pool2d(x, {{1, 1}}))))));
  }
  int64_t num_classes() const override { return 2; }

 private:
  Slot &first, &gate, &last;
};

/// One of each operation that keeps something.
class Everything : public Model {
 public:
  Everything() {
    add<Conv2d>("conv", Conv2dOptions{3, 8, {3, 3}});
    add<BatchNorm2d>("batch_norm", 8);
    add<ReLU>("relu", /*in_place=*/true);
    add<MaxPool2d>("max_pool", Pool2dOptions{.kernel = {3, 3}, .stride = {2, 2}});
    add<Conv2d>("grouped",
                Conv2dOptions{.in_channels = 8, .out_channels = 8, .kernel = {1, 1}, .groups = 4});
    add<GroupNorm>("group_norm", 2, 8);
    add<Gelu>("gelu");
    add<AdaptiveAvgPool2d>("cells", 2);
    add<Linear>("wide", 32, 6);
    add<LayerNorm>("layer_norm", 6);
    add<ReLU>("relu2");
    add<Linear>("fc", 6, 2);
  }
  at::Tensor forward(const at::Tensor& input) override { return through_slots(input); }
  int64_t num_classes() const override { return 2; }
};

NetworkCost cost(Model& model, int64_t size, int64_t batch_size = 1) {
  return cost_of(record(model, at::zeros({1, 3, size, size})), model, batch_size);
}

}  // namespace

TEST_CASE("FLOPs of a step leave out gradients that no trained weight needs", "[cost]") {
  // 6 x 6 places of 3 * 9 factors, 4 x 4 of 4 * 9 in two groups, and a matrix.
  const int64_t conv1 = 2 * 8 * 36 * 27, conv2 = 2 * 4 * 16 * 36, fc = 2 * 4 * 2;
  Chain model(
      {{3, 8, {3, 3}}, {.in_channels = 8, .out_channels = 4, .kernel = {3, 3}, .groups = 2}});
  auto whole = cost(model, 8);
  CHECK(whole.flops_forward == conv1 + conv2 + fc);
  CHECK(whole.flops_step == 2 * conv1 + 3 * conv2 + 3 * fc);
  CHECK(whole.parameters == (8 * 27 + 8) + (4 * 36 + 4) + (8 + 2));
  CHECK(whole.trainable_parameters == whole.parameters);
  CHECK(cost(model, 8, 5).flops_step == 5 * whole.flops_step);

  model.freeze({"conv1.*"});
  CHECK(cost(model, 8).flops_step == conv1 + 2 * conv2 + 3 * fc);
  CHECK(cost(model, 8).trainable_parameters == whole.parameters - (8 * 27 + 8));
  for (auto& parameter : model.parameters()) parameter.set_requires_grad(true);
  model.freeze({"conv2.weight"});
  CHECK(cost(model, 8).flops_step == 2 * conv1 + 2 * conv2 + 3 * fc);
  model.freeze({"conv*"});
  const auto head = cost(model, 8);
  CHECK(head.flops_step == conv1 + conv2 + 2 * fc);
  CHECK(head.activation_bytes == 4 * 4);  // what the matrix is multiplied with
}

TEST_CASE("a receptive field is the part of the image that moves a place", "[cost]") {
  Chain model({{3, 2, {3, 5}, {2, 1}},
               {.in_channels = 2, .out_channels = 2, .kernel = {3, 3}, .dilation = {2, 3}},
               {.in_channels = 2, .out_channels = 2, .kernel = {2, 3}, .stride = {3, 2}}});
  for (auto& parameter : model.parameters()) parameter.data().fill_(0.5);
  const auto graph = record(model, at::zeros({1, 3, 40, 40}));
  const auto field = cost_of(graph, model).receptive_field;

  auto image = at::ones({1, 3, 40, 40}).requires_grad_();
  at::Tensor x = image;
  for (size_t i = 0; i < 6; ++i) x = model.slots()[i](x);
  std::vector<int64_t> first;
  for (const int64_t place : {1, 2}) {
    image.mutable_grad().reset();
    x.select(2, place).select(2, place).sum().backward({}, /*retain_graph=*/true);
    const auto touched = image.grad()[0][0].nonzero();
    const auto least = std::get<0>(touched.min(0)), most = std::get<0>(touched.max(0));
    for (int64_t d = 0; d < 2; ++d) {
      CHECK(most[d].item<int64_t>() - least[d].item<int64_t>() + 1 ==
            field.size[static_cast<size_t>(d)]);
      first.push_back(least[d].item<int64_t>());
    }
  }
  CHECK(field.stride == std::array{first[2] - first[0], first[3] - first[1]});
  CHECK_FALSE(field.whole);
}

TEST_CASE("what goes through a gate depends on the whole image", "[cost]") {
  Gated model;
  const auto seen = cost(model, 32);
  CHECK(seen.operations.front().receptive_field.size == std::array<int64_t, 2>{3, 3});
  CHECK_FALSE(seen.operations.front().receptive_field.whole);
  CHECK(seen.receptive_field.whole);
  CHECK(seen.receptive_field.size == std::array<int64_t, 2>{32, 32});
  CHECK(seen.receptive_field.stride == std::array<int64_t, 2>{2, 2});
}

TEST_CASE("activation bytes are those of the tensors that autograd saves", "[cost]") {
  Everything all;
  Gated gated;
  Chain chain({{3, 8, {3, 3}}, {8, 4, {3, 3}}});
  for (Model* model : std::initializer_list<Model*>{&all, &gated, &chain})
    for (const int64_t batch_size : {1, 3}) {
      const auto images = at::randn({batch_size, 3, 20, 20});
      CHECK(cost(*model, 20, batch_size).activation_bytes == test::saved_bytes(*model, images));
    }
  chain.freeze({"conv1.*"});
  CHECK(cost(chain, 20, 3).activation_bytes == test::saved_bytes(chain, at::randn({3, 3, 20, 20})));
}

}  // namespace composer::cost_test

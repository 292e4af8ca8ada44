#include "algorithms/quantization_aware.h"

#include <catch2/catch.hpp>

#include "algorithms/dropout.h"
#include "algorithms/factorize.h"
#include "algorithms/parts/replaced_layers.h"
#include "algorithms/squeeze_excite.h"
#include "nn/network/graph.h"
#include "tests/algorithms/tiny_model.h"

namespace composer::quantization_aware_test {

using test::Fixture;
using test::TinyModel;

TEST_CASE("rounded activations stand at as many codes as there are, zero among them",
          "[quantization_aware]") {
  at::manual_seed(1);
  for (const int64_t bits : {7, 8}) {
    const auto values = at::cat({at::randn({5000}) * 3, at::zeros({1})}).requires_grad_();
    const auto rounded = rounded_activations(values, bits);
    const auto distinct = std::get<0>(at::_unique2((rounded.detach() * 1e4).round()));
    CHECK(distinct.numel() <= (1 << bits));
    CHECK(rounded[5000].item<float>() == 0);
    const double step = (values.max() - values.min()).item<double>() / ((1 << bits) - 1);
    CHECK((rounded - values).abs().max().item<double>() <= step * 0.501);
    rounded.sum().backward();
    CHECK(at::equal(values.grad(), at::ones_like(values)));
  }
  CHECK(at::equal(rounded_activations(at::zeros({2, 3}), 8), at::zeros({2, 3})));
  CHECK(rounded_activations(at::randn({4}).to(at::kBFloat16), 8).scalar_type() == at::kBFloat16);
}

TEST_CASE("a rounded weight has 8 bits for each output, and a channel's factor changes nothing",
          "[quantization_aware]") {
  at::manual_seed(2);
  auto weight = at::randn({6, 4, 3, 3});
  weight[2].zero_();
  const auto rounded = rounded_weight(weight);
  for (int64_t i = 0; i < 6; ++i) {
    const double step = weight[i].abs().max().item<double>() / 127.5;
    CHECK((rounded[i] - weight[i]).abs().max().item<double>() <= step * 0.51);
  }
  // As batch norm's factors are when they are folded in.
  const auto factors = at::rand({6, 1, 1, 1}) + 0.5;
  CHECK(at::allclose(rounded_weight(weight * factors), rounded * factors, 0, 0.02));
}

TEST_CASE("quantization_aware rounds in training, from its start on, and nowhere else",
          "[quantization_aware]") {
  Fixture f;
  const auto model = std::dynamic_pointer_cast<TinyModel>(f.state.model);
  const double plain = f.loss();
  const auto names = model->named_parameters().keys();
  QuantizationAware aware({.start = {10, TimeUnit::batch}});
  aware.init(f.state);
  CHECK(f.logged("quantization_aware/num_quantization_aware_layers") == 4);
  CHECK(model->named_parameters().keys() == names);
  const auto loss_at = [&](int64_t batch) {
    f.state.time.batch = batch;
    aware.batch_start(f.state);
    return f.loss();
  };
  CHECK(loss_at(9) == plain);
  const double rounded = loss_at(10);
  CHECK(rounded != plain);
  CHECK(rounded == Approx(plain).epsilon(0.05));
  model->eval();
  CHECK(f.loss() == plain);
  CHECK(record(*model, f.state.batch.input).operations.size() > 4);
  model->train();
  model->loss(model->forward(f.state.batch.input), f.state.batch.target).backward();
  for (const auto& parameter : model->named_parameters()) {
    CAPTURE(parameter.key());
    CHECK(parameter.value().grad().abs().sum().item<double>() > 0);
  }
}

TEST_CASE("quantization_aware rounds in layers that surgery made", "[quantization_aware]") {
  Fixture f;
  auto& model = *f.state.model;
  apply_factorization(model, {.min_channels = 16, .min_features = 16});
  apply_squeeze_excite(model, {.latent_channels = 4, .min_channels = 24}, 1);
  apply_dropout(model, {}, {});
  const auto rounding = std::make_shared<Rounding>();
  std::vector<std::string> after;
  for (const auto& replaced : apply_quantization_aware(model, rounding))
    after.push_back(replaced.path);
  CHECK(std::ranges::count(after, "fc") == 1);
  CHECK(std::ranges::count(after, "conv1") == 1);
  CHECK(std::ranges::count(after, "conv2.0") == 1);
  const double plain = f.loss();
  rounding->on = true;
  CHECK(f.loss() != plain);
}

TEST_CASE("gates around a convolution that rounds tell it training from evaluation",
          "[quantization_aware]") {
  at::manual_seed(4);
  const auto rounding = std::make_shared<Rounding>();
  rounding->on = true;
  const auto plain = std::make_shared<Conv2d>(
      Conv2dOptions{.in_channels = 3, .out_channels = 8, .kernel = {3, 3}});
  SqueezeExciteConv gated(std::make_shared<QuantizationAwareConv2d>(plain, rounding), 2, 1, 0);
  const auto images = at::randn({2, 3, 9, 9});
  const at::NoGradGuard no_grad;
  const auto expected = squeeze_excite(plain->forward(images), gated.squeeze, gated.excite);
  gated.eval();
  CHECK(at::equal(gated.forward(images), expected));
  gated.train();
  CHECK_FALSE(at::equal(gated.forward(images), expected));
}

TEST_CASE("a linear layer behind dropout rounds its features before some are dropped",
          "[quantization_aware]") {
  at::manual_seed(6);
  const at::NoGradGuard no_grad;
  const auto state = std::make_shared<const State>();
  const auto rounding = std::make_shared<Rounding>();
  const auto linear = std::make_shared<Linear>(24, 5);
  const auto dropping = std::make_shared<DropoutLinear>(linear, 0.5, "fc", state);
  QuantizationAwareLinear aware(dropping, rounding);
  const auto features = at::randn({16, 24});
  const auto before = linear->weight;
  CHECK(at::equal(aware.forward(features), dropping->forward(features)));
  rounding->on = true;
  const auto rounded = dropout(rounded_activations(features, 8), 0.5, "fc", *state);
  CHECK(at::equal(aware.forward(features),
                  op::linear(rounded, rounded_weight(linear->weight), linear->bias)));
  CHECK(dropping->weight.is_same(before));
  aware.eval();
  CHECK(at::equal(aware.forward(features), linear->forward(features)));
  rounding->on = false;
  CHECK(at::equal(aware.forward(features), linear->forward(features)));
}

}  // namespace composer::quantization_aware_test

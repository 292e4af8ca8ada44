#include "algorithms/squeeze_excite.h"

#include <catch2/catch.hpp>

#include "algorithms/blurpool.h"
#include "algorithms/factorize.h"
#include "base/error.h"
#include "models/mobilenet_v3.h"
#include "tests/algorithms/tiny_model.h"

namespace composer::squeeze_excite_test {

using test::Fixture;
using test::TinyModel;

namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

TEST_CASE("channels are weighed by gates of their means", "[squeeze_excite]") {
  const auto input = at::tensor({1.f, 3.f, -2.f, 6.f}).view({1, 2, 1, 2});  // means 2, 2
  const auto squeeze = at::tensor({1.f, 0.5f, -1.f, -1.f}).view({2, 2});    // 3, -4
  const auto excite = at::tensor({0.5f, 9.f, -1.f, 9.f}).view({2, 2});      // 1.5, -3
  const auto output = squeeze_excite(input, squeeze, excite).flatten();
  CHECK(output[0].item<float>() == Approx(1 * sigmoid(1.5)));
  CHECK(output[1].item<float>() == Approx(3 * sigmoid(1.5)));
  CHECK(output[2].item<float>() == Approx(-2 * sigmoid(-3)));
  CHECK(output[3].item<float>() == Approx(6 * sigmoid(-3)));
}

TEST_CASE("gates join what fits and keep weights and names", "[squeeze_excite]") {
  TinyModel model;
  const auto before = model.named_parameters();
  const auto replaced =
      apply_squeeze_excite(model, {.latent_channels = 0.3, .min_channels = 16}, 1);
  REQUIRE(replaced.size() == 2);
  CHECK(replaced[0].path == "conv2");
  CHECK(replaced[0].after ==
        "SqueezeExciteConv: Conv2d(16, 24, 3x3, stride 2), gates by 7 channels");
  const auto after = model.named_parameters();
  CHECK(after.size() == before.size() + 4);
  for (const auto& parameter : before) CHECK(after[parameter.key()].is_same(parameter.value()));
  CHECK(after["conv2.squeeze"].sizes() == at::IntArrayRef{7, 24});
  CHECK(after["conv2.excite"].sizes() == at::IntArrayRef{24, 7});
  CHECK(after["conv2.squeeze"].abs().max().item<double>() <= 1 / std::sqrt(24.0));
  CHECK_FALSE(at::equal(after["conv2.squeeze"], after["conv3.squeeze"]));

  const auto images = at::randn({2, 3, 32, 32});
  model.forward(images).sum().backward();
  for (const auto& parameter : after) {
    CAPTURE(parameter.key());
    CHECK(parameter.value().grad().abs().sum().item<double>() > 0);
  }
  CHECK_THROWS_AS(apply_squeeze_excite(model, {.min_channels = 16}, 1), UserError);
}

TEST_CASE("new weights depend on the seed alone", "[squeeze_excite]") {
  const auto weights = [](uint64_t seed) {
    TinyModel model;
    apply_squeeze_excite(model, {.min_channels = 24}, seed);
    return model.named_parameters()["conv3.squeeze"];
  };
  CHECK(at::equal(weights(1), weights(1)));
  CHECK_FALSE(at::equal(weights(1), weights(2)));
}

TEST_CASE("blurring convolutions are gated too", "[squeeze_excite]") {
  TinyModel model;
  apply_blurpool(model, {});
  const auto replaced = apply_squeeze_excite(model, {.min_channels = 24}, 1);
  REQUIRE(replaced.size() == 1);
  CHECK_THAT(replaced[0].after, Catch::Contains("BlurConv2d"));
}

TEST_CASE("a factorised convolution is gated once, by its own channels", "[squeeze_excite]") {
  TinyModel model;
  apply_factorization(model, {.min_channels = 16, .latent_channels = 4, .min_features = 1000});
  const auto replaced = apply_squeeze_excite(model, {.min_channels = 16}, 1);
  std::vector<std::string> paths;
  for (const auto& replacement : replaced) paths.push_back(replacement.path);
  CHECK(paths == std::vector<std::string>{"conv2.1", "conv3.1"});
}

TEST_CASE("squeeze-excite changes the step, logs and reports", "[squeeze_excite]") {
  Fixture f;
  const double baseline = f.loss();
  SqueezeExcite algorithm({.min_channels = 24});
  algorithm.init(f.state);
  CHECK(f.loss() != Approx(baseline));
  CHECK(f.logged("squeeze_excite/num_squeeze_excite_layers") == 1);
  CHECK(algorithm.report().size() == 1);
  CHECK_THROWS_WITH(SqueezeExcite({}).init(f.state), Catch::Contains("at least 128"));
}

TEST_CASE("a network's own gates get no gates", "[squeeze_excite]") {
  MobileNetV3 model({.num_classes = 10});
  for (const auto& replaced :
       apply_squeeze_excite(model, {.latent_channels = 0.25, .min_channels = 16}, 1))
    CHECK(replaced.path.find("fc") == std::string::npos);
}

}  // namespace composer::squeeze_excite_test

#include "algorithms/factorize.h"

#include <catch2/catch.hpp>

#include "base/error.h"
#include "tests/algorithms/tiny_model.h"

namespace composer::factorize_test {

using test::Fixture;
using test::TinyModel;

TEST_CASE("ranks end where nothing is saved", "[factorize]") {
  CHECK(largest_useful_rank(512 * 9, 512) == 460);
  CHECK(largest_useful_rank(512, 2048) == 409);
  CHECK(largest_useful_rank(256 * 9, 256) == 230);
}

TEST_CASE("factors keep the largest singular values", "[factorize]") {
  const auto [left, right] = low_rank(at::diag(at::tensor({1.f, 9.f, 4.f})), 2);
  CHECK(at::allclose(left.mm(right), at::diag(at::tensor({0.f, 9.f, 4.f})), 1e-5, 1e-5));
  CHECK(at::allclose(left.square().sum(0), at::tensor({9.f, 4.f})));
  CHECK(at::allclose(right.square().sum(1), at::tensor({9.f, 4.f})));
}

TEST_CASE("at full rank a split layer computes the same", "[factorize]") {
  const bool bias = GENERATE(true, false);
  Conv2d conv({.in_channels = 6,
               .out_channels = 5,
               .kernel = {3, 2},
               .stride = {2, 1},
               .padding = {1, 0},
               .dilation = {1, 2},
               .bias = bias});
  const auto images = at::randn({2, 6, 9, 9});
  const auto split = factorized(conv, 5);
  CHECK(at::allclose(split->forward(images), conv.forward(images), 1e-4, 1e-5));
  CHECK(split->named_parameters().contains("1.bias") == bias);
  Linear linear(7, 4, bias);
  const auto features = at::randn({3, 7});
  CHECK(
      at::allclose(factorized(linear, 4)->forward(features), linear.forward(features), 1e-4, 1e-5));
}

TEST_CASE("a split layer is the nearest of its rank", "[factorize]") {
  at::NoGradGuard no_grad;
  Linear linear(40, 30, false);
  const auto thin = at::randn({30, 8}).mm(at::randn({8, 40}));
  linear.weight.copy_(thin + 0.01 * at::randn({30, 40}));
  const auto split = factorized(linear, 8);
  const auto parameters = split->named_parameters();
  const auto product = parameters["1.weight"].mm(parameters["0.weight"]);
  const double error = (product - linear.weight).norm().item<double>();
  CHECK(error < 0.01 * std::sqrt(30.0 * 40.0));
  const auto singular = std::get<1>(at::linalg_svd(linear.weight));
  CHECK(error == Approx(singular.narrow(0, 8, 22).norm().item<double>()).epsilon(1e-3));
}

TEST_CASE("only what is wide and gets cheaper is split", "[factorize]") {
  const auto paths = [](const Factorize::Params& params) {
    TinyModel model;
    std::vector<std::string> all;
    for (const auto& replacement : apply_factorization(model, params))
      all.push_back(replacement.path);
    return all;
  };
  using Paths = std::vector<std::string>;
  CHECK(paths({.min_channels = 16, .latent_channels = 4}) == Paths{"conv2", "conv3"});
  CHECK(paths({.min_channels = 16, .latent_channels = 12}) == Paths{"conv2"});
  CHECK(paths({.min_channels = 24, .latent_channels = 0.25}) == Paths{"conv3"});
  CHECK(paths({.min_features = 5, .latent_features = 4}) == Paths{"fc"});
  CHECK_THROWS_AS(paths({.min_features = 5, .latent_features = 5}), UserError);
  CHECK_THROWS_AS(paths({.factorize_linears = false, .min_features = 5, .latent_features = 4}),
                  UserError);
  CHECK_THROWS_AS(paths({}), UserError);
}

TEST_CASE("factorize changes the step, trains, logs and reports", "[factorize]") {
  Fixture f;
  const double baseline = f.loss();
  Factorize factorize({.min_channels = 24});
  factorize.init(f.state);
  CHECK(f.loss() != Approx(baseline));
  CHECK(f.logged("factorize/num_factorized_layers") == 1);
  CHECK(factorize.report() ==
        std::vector<std::string>{"conv3: Conv2d(24, 24, 1x1, stride 2) -> Factorized: "
                                 "Conv2d(24, 6, 1x1, stride 2), Conv2d(6, 24, 1x1)"});
  const auto parameters = f.state.model->named_parameters();
  CHECK(parameters.contains("conv3.0.weight"));
  CHECK_FALSE(parameters.contains("conv3.0.bias"));
  f.state.model->loss(f.state.model->forward(f.state.batch.input), f.state.batch.target).backward();
  for (const auto& parameter : parameters) {
    CAPTURE(parameter.key());
    CHECK(parameter.value().requires_grad());
    CHECK(parameter.value().grad().abs().sum().item<double>() > 0);
  }
}

}  // namespace composer::factorize_test

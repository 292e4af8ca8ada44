#include "algorithms/dirac_init.h"

#include <catch2/catch.hpp>

#include "base/error.h"
#include "tests/algorithms/tiny_model.h"

namespace composer::dirac_init_test {

using composer::test::Fixture;

TEST_CASE("an initialised convolution hands its input on", "[dirac_init]") {
  Conv2d widening(
      {.in_channels = 3, .out_channels = 5, .kernel = {3, 3}, .padding = {1, 1}, .bias = false});
  const auto others = widening.weight.narrow(0, 3, 2).clone();
  REQUIRE(dirac_init(widening));
  const auto input = at::randn({2, 3, 7, 6});
  CHECK(at::allclose(widening.forward(input).narrow(1, 0, 3), input));
  CHECK(at::equal(widening.weight.narrow(0, 3, 2), others));

  Conv2d narrowing(
      {.in_channels = 4, .out_channels = 2, .kernel = {3, 5}, .padding = {1, 2}, .bias = false});
  REQUIRE(dirac_init(narrowing));
  const auto wide = at::randn({2, 4, 7, 6});
  CHECK(at::allclose(narrowing.forward(wide), wide.narrow(1, 0, 2)));

  Conv2d strided({.in_channels = 2,
                  .out_channels = 2,
                  .kernel = {3, 3},
                  .stride = {2, 2},
                  .padding = {2, 2},
                  .dilation = {2, 2},
                  .bias = false});
  REQUIRE(dirac_init(strided));
  const auto large = at::randn({1, 2, 8, 8});
  CHECK(at::allclose(strided.forward(large), large.slice(2, 0, 8, 2).slice(3, 0, 8, 2)));
}

TEST_CASE("a convolution that cannot hand its input on is left alone", "[dirac_init]") {
  for (const auto& options : {Conv2dOptions{.in_channels = 2, .out_channels = 2, .kernel = {2, 2}},
                              Conv2dOptions{.in_channels = 2, .out_channels = 2, .kernel = {3, 3}},
                              Conv2dOptions{.in_channels = 2,
                              .out_channels = 2,
                              .kernel = {3, 3},
                              .padding = {1, 1},
                              .groups = 2}}) {
    Conv2d conv(options);
    const auto before = conv.weight.clone();
    CHECK_FALSE(dirac_init(conv));
    CHECK(at::equal(conv.weight, before));
  }
}

TEST_CASE("dirac_init changes kernels from min_kernel up, and reports them", "[dirac_init]") {
  Fixture f;
  const auto weight = [&](const char* name) { return f.state.model->named_parameters()[name]; };
  const auto pointwise = weight("conv3.weight").clone();
  DiracInit init({});
  init.init(f.state);
  CHECK(init.report().size() == 2);
  CHECK(at::equal(weight("conv3.weight"), pointwise));
  CHECK(at::equal(weight("conv1.weight")[1].sum(), at::ones({})));
  CHECK(weight("conv1.weight").requires_grad());

  DiracInit every({.min_kernel = 1});
  every.init(f.state);
  CHECK(every.report().size() == 3);
  DiracInit none({.min_kernel = 9});
  CHECK_THROWS_AS(none.init(f.state), UserError);
}

}  // namespace composer::dirac_init_test

#include "algorithms/augmix.h"

#include <catch2/catch.hpp>
#include <map>

#include "tests/algorithms/augmentation_checks.h"

namespace composer::augmix_test {

namespace {

AugMixDraw draw(uint64_t index, const AugMix::Params& params) {
  Random random(17, "test", 0, index);
  return draw_augmix(random, {32, 32}, params);
}

}  // namespace

TEST_CASE("augmix draws chains, weights and a share", "[augmix]") {
  constexpr int n = 3000;
  double mixing = 0, mixing2 = 0;
  std::array<double, 3> weight{}, weight2{};
  std::map<size_t, int> depths;
  for (uint64_t i = 0; i < n; ++i) {
    const auto one = draw(i, {});
    REQUIRE(one.chains.size() == 3);
    REQUIRE(one.weights.size() == 3);
    CHECK(one.weights[0] + one.weights[1] + one.weights[2] == Approx(1));
    for (size_t c = 0; c < 3; ++c) {
      CHECK(one.weights[c] >= 0);
      weight[c] += one.weights[c] / n, weight2[c] += one.weights[c] * one.weights[c] / n;
      ++depths[one.chains[c].size()];
      for (const auto& step : one.chains[c])
        if (step.op == ImageOp::rotate) CHECK(std::abs(step.magnitude) < 9);
    }
    mixing += one.mixing / n, mixing2 += one.mixing * one.mixing / n;
  }
  CHECK(mixing == Approx(0.5).margin(0.02));
  CHECK(mixing2 - mixing * mixing == Approx(1 / 12.0).margin(0.005));
  for (size_t c = 0; c < 3; ++c) {  // of the flat Dirichlet distribution
    CHECK(weight[c] == Approx(1 / 3.0).margin(0.02));
    CHECK(weight2[c] - weight[c] * weight[c] == Approx(1 / 18.0).margin(0.005));
  }
  REQUIRE(depths.size() == 3);
  for (const size_t depth : {1, 2, 3}) CHECK(depths[depth] == Approx(n).margin(200));
}

TEST_CASE("augmix's depth, width and alpha", "[augmix]") {
  const auto one = draw(3, {.depth = 4, .width = 2, .alpha = 1000});
  REQUIRE(one.chains.size() == 2);
  CHECK(one.chains[1].size() == 4);
  CHECK(one.weights[0] == Approx(0.5).margin(0.08));
  CHECK(one.mixing == Approx(0.5).margin(0.08));
  CHECK(draw(3, {.width = 1}).weights == std::vector<double>{1});
  for (uint64_t i = 0; i < 100; ++i)
    for (const auto& chain : draw(i, {.augmentation_set = "safe"}).chains)
      for (const auto& step : chain)
        CHECK_FALSE((step.op >= ImageOp::brightness && step.op <= ImageOp::sharpness));
}

TEST_CASE("augmix on the device and on the loader", "[augmix][gpu]") {
  test::check_places<AugMix>({}, "augmix.image", [](Random& random, ImageSize size) {
    return draw_augmix(random, size, {});
  });
}

TEST_CASE("augmix refuses values out of range", "[augmix]") {
  CHECK(test::problems<AugMix>("severity", "11") == 1);
  CHECK(test::problems<AugMix>("depth", "-1") == 0);
  CHECK(test::problems<AugMix>("depth", "0") == 1);
  CHECK(test::problems<AugMix>("width", "0") == 1);
  CHECK(test::problems<AugMix>("alpha", "0") == 1);
  CHECK(test::problems<AugMix>("augmentation_set", "some") == 1);
  CHECK(test::problems<AugMix>("where", "cpu") == 1);
}

}  // namespace composer::augmix_test

#include "base/random.h"

#include <catch2/catch.hpp>

namespace composer::random_test {

using composer::Random;

// Known-answer vectors of the Random123 distribution.
TEST_CASE("philox4x32-10 gives the published vectors", "[random]") {
  CHECK(Random::philox({0, 0, 0, 0}, {0, 0}) ==
        std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(
      Random::philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}) ==
      std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(
      Random::philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
      std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("streams differ by seed, purpose, epoch and index, and repeat", "[random]") {
  const auto first = [](uint64_t seed, const char* purpose, uint64_t epoch, uint64_t index) {
    return Random(seed, purpose, epoch, index).uniform();
  };
  const double base = first(17, "a", 3, 5);
  CHECK(base == first(17, "a", 3, 5));
  CHECK(base != first(18, "a", 3, 5));
  CHECK(base != first(17 + (1ull << 32), "a", 3, 5));
  CHECK(base != first(17, "b", 3, 5));
  CHECK(base != first(17, "a", 4, 5));
  CHECK(base != first(17, "a", 3, 6));
}

TEST_CASE("below is uniform and stays in range", "[random]") {
  Random random(1, "below", 0, 0);
  std::array<int, 7> counts{};
  for (int i = 0; i < 70000; ++i) ++counts.at(random.below(7));
  for (const int count : counts) CHECK(count == Approx(10000).margin(400));
}

TEST_CASE("normal draws have the moments of the distribution", "[random]") {
  Random random(1, "normal", 0, 0);
  double sum = 0, squares = 0;
  constexpr int n = 50000;
  for (int i = 0; i < n; ++i) {
    const double x = random.normal();
    sum += x;
    squares += x * x;
  }
  CHECK(sum / n == Approx(0).margin(0.02));
  CHECK(squares / n == Approx(1).margin(0.03));
}

TEST_CASE("beta draws have the moments of the distribution", "[random]") {
  const auto [a, b] = GENERATE(std::pair{0.2, 0.2}, std::pair{1.0, 1.0}, std::pair{0.5, 2.0},
                               std::pair{5.0, 3.0}, std::pair{400.0, 100.0});
  Random random(1, "beta", 0, 0);
  double sum = 0, squares = 0;
  constexpr int n = 50000;
  for (int i = 0; i < n; ++i) {
    const double x = random.beta(a, b);
    REQUIRE(x >= 0);
    REQUIRE(x <= 1);
    sum += x;
    squares += x * x;
  }
  const double mean = sum / n, variance = squares / n - mean * mean;
  CAPTURE(a, b);
  CHECK(mean == Approx(a / (a + b)).margin(0.01));
  CHECK(variance == Approx(a * b / ((a + b) * (a + b) * (a + b + 1))).epsilon(0.05));
}

TEST_CASE("beta(1/2, 1/2) follows the arcsine law, tiny parameters a coin", "[random]") {
  Random random(1, "beta", 0, 1);
  constexpr int n = 50000;
  int below_tenth = 0, ones = 0;
  for (int i = 0; i < n; ++i) {
    below_tenth += random.beta(0.5, 0.5) < 0.1;
    const double coin = random.beta(1e-9, 1e-9);
    REQUIRE((coin < 1e-6 || coin > 1 - 1e-6));
    ones += coin > 0.5;
    const double smallest = random.beta(1e-320, 1e-320);
    REQUIRE((smallest == 0 || smallest == 1));
  }
  CHECK(below_tenth == Approx(n * 2 / 3.14159265 * std::asin(std::sqrt(0.1))).epsilon(0.03));
  CHECK(ones == Approx(n / 2.0).epsilon(0.03));
}

}  // namespace composer::random_test

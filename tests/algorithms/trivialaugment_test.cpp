#include "algorithms/trivialaugment.h"

#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <sstream>

#include "algorithms/augmentation/primitives.h"
#include "tests/algorithms/augmentation_tables.h"

namespace composer::trivialaugment_test {

namespace {

using Magnitudes = std::map<ImageOp, std::set<double>>;

Magnitudes drawn(int64_t bins, uint64_t draws) {
  Magnitudes seen;
  for (uint64_t i = 0; i < draws; ++i) {
    Random random(17, "test", 0, i);
    const auto steps = draw_trivialaugment(random, {.num_magnitude_bins = bins});
    REQUIRE(steps.size() == 1);
    CHECK(steps[0].interpolation == Interpolation::nearest);
    seen[steps[0].op].insert(steps[0].magnitude);
  }
  return seen;
}

void check_space(const std::string& text) {
  std::istringstream tables(text);
  std::map<int64_t, Magnitudes> expected;
  for (std::string line; std::getline(tables, line);) {
    std::istringstream words(line);
    std::string what;
    int op = 0, bins = 0, number = 0, has_sign = 0;
    double magnitude = 0;
    if (words >> what; what != "trivial") continue;
    REQUIRE(words >> op >> bins >> number >> magnitude >> has_sign);
    auto& values = expected[bins][static_cast<ImageOp>(op)];
    values.insert(magnitude);
    if (has_sign) values.insert(-magnitude);
  }
  REQUIRE(expected.size() == 3);
  for (const auto& [bins, magnitudes] : expected) {
    INFO(bins);
    auto seen = drawn(bins, 1000 * static_cast<uint64_t>(bins));
    REQUIRE(seen.size() == magnitudes.size());
    for (const auto& [op, values] : magnitudes) {
      INFO(image_op_names[static_cast<size_t>(op)]);
      CHECK_THAT(std::vector<double>(seen[op].begin(), seen[op].end()),
                 Catch::Approx(std::vector<double>(values.begin(), values.end())).margin(1e-5));
    }
  }
}

}  // namespace

TEST_CASE("trivialaugment's space is torchvision's", "[trivialaugment][reference]") {
  check_space(test::tables(/*from_peer=*/false));
}

TEST_CASE("trivialaugment's space is that of the torchvision that is installed",
          "[trivialaugment][reference][peer][slow]") {
  if (const auto text = test::tables(/*from_peer=*/true); !text.empty()) check_space(text);
}

TEST_CASE("trivialaugment draws operations and signs equally often", "[trivialaugment]") {
  std::map<ImageOp, int> count;
  int negative = 0, moved = 0;
  for (uint64_t i = 0; i < 14000; ++i) {
    Random random(17, "test", 0, i);
    const auto step = draw_trivialaugment(random, {}).at(0);
    ++count[step.op];
    if (step.op >= ImageOp::shear_x && step.op <= ImageOp::sharpness && step.magnitude != 0)
      ++moved, negative += step.magnitude < 0;
  }
  CHECK(count.size() == 14);
  for (const auto& [op, n] : count) CHECK(n == Approx(1000).margin(120));
  CHECK(negative == Approx(moved / 2).margin(150));
}

TEST_CASE("magnitudes are spaced as at::linspace spaces them", "[trivialaugment]") {
  for (int64_t n = 2; n < 70; ++n)
    for (const auto& [first, last] : std::vector<std::pair<double, double>>{
             {0, 0.3}, {0, 0.99}, {0, 32}, {255, 0}, {0, 150.0 / 331.0 * 224}}) {
      const auto expected = at::linspace(first, last, n, at::kFloat);
      for (int64_t i = 0; i < n; ++i) {
        INFO(first << " to " << last << ": " << i << " of " << n);
        CHECK(evenly_spaced(first, last, n, i) == Approx(expected[i].item<float>()).epsilon(2e-7));
      }
    }
  CHECK(posterize_bits(6, 31, 0) == 8);
  CHECK(posterize_bits(6, 31, 30) == 2);
  CHECK(posterize_bits(4, 10, 9) == 4);
}

TEST_CASE("trivialaugment on the device and on the loader", "[trivialaugment][gpu]") {
  test::check_places<TrivialAugment>({}, "trivialaugment.image", [](Random& random, ImageSize) {
    return draw_trivialaugment(random, {});
  });
}

TEST_CASE("trivialaugment refuses values out of range", "[trivialaugment]") {
  CHECK(test::problems<TrivialAugment>("num_magnitude_bins", "2") == 0);
  CHECK(test::problems<TrivialAugment>("num_magnitude_bins", "1") == 1);
  CHECK(test::problems<TrivialAugment>("where", "gpu") == 1);
}

}  // namespace composer::trivialaugment_test

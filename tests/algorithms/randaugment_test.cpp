#include "algorithms/randaugment.h"

#include <catch2/catch.hpp>
#include <map>

#include "tests/algorithms/augmentation_checks.h"

namespace composer::randaugment_test {

namespace {

struct Seen {
  int64_t n = 0, negative = 0;
  double low = 1e9, high = -1e9;
};

std::map<ImageOp, Seen> draws(const RandAugment::Params& params, ImageSize size = {224, 96}) {
  std::map<ImageOp, Seen> seen;
  for (uint64_t i = 0; i < 6500; ++i) {
    Random random(17, "test", 0, i);
    for (const auto& step : draw_randaugment(random, size, params)) {
      auto& one = seen[step.op];
      ++one.n, one.negative += step.magnitude < 0;
      one.low = std::min(one.low, step.magnitude), one.high = std::max(one.high, step.magnitude);
      const bool between =
          step.op == ImageOp::rotate || step.op == ImageOp::shear_x || step.op == ImageOp::shear_y;
      CHECK((step.interpolation == Interpolation::bilinear) == between);
    }
  }
  return seen;
}

void check_range(const Seen& seen, double low, double high, double margin) {
  CHECK(seen.low >= low - 1e-9);
  CHECK(seen.low <= low + margin);
  CHECK(seen.high <= high + 1e-9);
  CHECK(seen.high >= high - margin);
}

}  // namespace

TEST_CASE("randaugment draws thirteen operations equally often, up to the severity",
          "[randaugment]") {
  auto seen = draws({});
  REQUIRE(seen.size() == 13);
  for (const auto& [op, one] : seen) {
    INFO(image_op_names[static_cast<size_t>(op)]);
    CHECK(one.n == Approx(1000).margin(120));
    const bool both_ways = one.low < 0;
    CHECK(both_ways == (op >= ImageOp::shear_x && op <= ImageOp::sharpness));
    if (both_ways && op != ImageOp::brightness)
      CHECK(one.negative == Approx(static_cast<double>(one.n) / 2).margin(80));
  }
  check_range(seen[ImageOp::posterize], 1, 4, 0);
  check_range(seen[ImageOp::rotate], -26, 26, 0);
  check_range(seen[ImageOp::solarize], 256 - 230, 256 - 2, 3);
  check_range(seen[ImageOp::shear_x], -0.27, 0.27, 0.01);
  check_range(seen[ImageOp::shear_y], -0.27, 0.27, 0.01);
  check_range(seen[ImageOp::translate_x], -28, 28, 0);
  check_range(seen[ImageOp::translate_y], -67, 67, 1);
  for (const auto op : {ImageOp::color, ImageOp::contrast, ImageOp::sharpness})
    check_range(seen[op], -0.81, 8, 0.1);
  check_range(seen[ImageOp::brightness], -0.81, 5.75, 0.1);
}

TEST_CASE("randaugment's sets and severities", "[randaugment]") {
  auto safe = draws({.severity = 5, .augmentation_set = "safe"});
  CHECK(safe.size() == 9);
  CHECK_FALSE(safe.contains(ImageOp::brightness));
  auto original = draws({.severity = 5, .augmentation_set = "original"});
  CHECK(original.size() == 13);
  for (const auto op : {ImageOp::color, ImageOp::contrast, ImageOp::brightness, ImageOp::sharpness})
    check_range(original[op], 0.118 - 1, 1.0 - 1, 0.02);
  auto none = draws({.severity = 0});
  check_range(none[ImageOp::color], 0, 0, 0);
  check_range(none[ImageOp::rotate], 0, 0, 0);
  Random random(17, "test", 0, 0);
  CHECK(draw_randaugment(random, {8, 8}, {.depth = 5}).size() == 5);
}

TEST_CASE("randaugment on the device and on the loader", "[randaugment][gpu]") {
  const RandAugment::Params params{.severity = 8, .depth = 3};
  test::check_places<RandAugment>(params, "randaugment.image", [&](Random& random, ImageSize size) {
    return draw_randaugment(random, size, params);
  });
}

TEST_CASE("randaugment refuses values out of range", "[randaugment]") {
  CHECK(test::problems<RandAugment>("severity", "10") == 0);
  CHECK(test::problems<RandAugment>("severity", "11") == 1);
  CHECK(test::problems<RandAugment>("severity", "-1") == 1);
  CHECK(test::problems<RandAugment>("depth", "0") == 1);
  CHECK(test::problems<RandAugment>("augmentation_set", "none") == 1);
  CHECK(test::problems<RandAugment>("where", "auto") == 1);
}

}  // namespace composer::randaugment_test

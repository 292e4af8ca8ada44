#include "algorithms/autoaugment.h"

#include <catch2/catch.hpp>
#include <map>
#include <sstream>

#include "tests/algorithms/augmentation_tables.h"

namespace composer::autoaugment_test {

namespace {

void check_policies(const std::string& text) {
  std::istringstream tables(text);
  std::map<std::string, size_t> parts;
  int magnitudes = 0;
  for (std::string line; std::getline(tables, line);) {
    INFO(line);
    std::istringstream words(line);
    std::string what, policy;
    int op = 0;
    double probability = 0, magnitude = 0;
    int64_t level = 0;
    ImageSize size;
    words >> what;
    if (what == "policy") {
      REQUIRE(words >> policy >> op >> probability >> level);
      const size_t at = parts[policy]++;
      const auto& part = AutoAugment::policy(policy).at(at / 2)[at % 2];
      CHECK(static_cast<int>(part.op) == op);
      CHECK(part.probability == probability);
      CHECK(part.level == level);
    } else if (what == "auto") {
      REQUIRE(words >> op >> level >> size.height >> size.width >> magnitude);
      CHECK(AutoAugment::magnitude(static_cast<ImageOp>(op), level, size) ==
            Approx(magnitude).epsilon(1e-6));
      ++magnitudes;
    }
  }
  CHECK(parts == std::map<std::string, size_t>{{"cifar10", 50}, {"imagenet", 50}, {"svhn", 50}});
  CHECK(magnitudes == 3 * 14 * 10);
}

}  // namespace

TEST_CASE("autoaugment's policies and magnitudes are torchvision's", "[autoaugment][reference]") {
  check_policies(test::tables(/*from_peer=*/false));
}

TEST_CASE("autoaugment's policies and magnitudes are those of the torchvision that is installed",
          "[autoaugment][reference][peer][recorded][slow]") {
  if (const auto text = test::tables(/*from_peer=*/true); !text.empty()) check_policies(text);
}

TEST_CASE("autoaugment draws pairs equally often, their parts as often as they shall be",
          "[autoaugment]") {
  constexpr int n = 10000;
  for (const std::string name : {"imagenet", "cifar10", "svhn"}) {
    std::map<ImageOp, double> expected, drawn;
    for (const auto& pair : AutoAugment::policy(name))
      for (const auto& part : pair) expected[part.op] += n * part.probability / 25;
    int negative = 0, with_sign = 0;
    for (uint64_t i = 0; i < n; ++i) {
      Random random(17, "test", 0, i);
      const auto steps = draw_autoaugment(random, {64, 64}, {.policy = name});
      CHECK(steps.size() <= 2);
      for (const auto& step : steps) {
        ++drawn[step.op];
        const bool any = step.op >= ImageOp::shear_x && step.op <= ImageOp::sharpness;
        with_sign += any && step.magnitude != 0, negative += step.magnitude < 0;
        if (!any) CHECK(step.magnitude >= 0);
      }
    }
    for (const auto& [op, often] : expected) {
      INFO(name << ' ' << image_op_names[static_cast<size_t>(op)]);
      CHECK(drawn[op] == Approx(often).margin(5 * std::sqrt(often) + 1));
    }
    CHECK(negative == Approx(with_sign / 2.0).margin(150));
  }
}

TEST_CASE("autoaugment on the device and on the loader", "[autoaugment][gpu]") {
  const AutoAugment::Params params{.policy = "svhn"};
  test::check_places<AutoAugment>(params, "autoaugment.image", [&](Random& random, ImageSize size) {
    return draw_autoaugment(random, size, params);
  });
}

TEST_CASE("autoaugment refuses values out of range", "[autoaugment]") {
  CHECK(test::problems<AutoAugment>("policy", "svhn") == 0);
  CHECK(test::problems<AutoAugment>("policy", "mnist") == 1);
  CHECK(test::problems<AutoAugment>("where", "auto") == 1);
}

}  // namespace composer::autoaugment_test

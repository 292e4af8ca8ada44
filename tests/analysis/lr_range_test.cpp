// What a curve of losses over growing learning rates suggests.
#include "analysis/lr_range.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/random.h"

namespace composer::lr_range_test {

using Catch::Contains;

namespace {

/// Flat, then falling around lr 0.01, then rising from 1 on.
double loss_at(double lr) { return 1 + 1.3 / (1 + std::pow(lr / 0.01, 2)) + std::pow(lr / 3, 3); }

LrRange range_of(double noise, int64_t steps = 200) {
  LrRange range(1e-5, 100, steps);
  for (int64_t i = 0;; ++i) {
    Random random(17, "test.noise", 0, static_cast<uint64_t>(i));
    if (!range.add(loss_at(range.lr(i)) + noise * random.normal())) return range;
  }
}

}  // namespace

TEST_CASE("the learning rate grows by the same factor", "[analysis][study]") {
  const LrRange range(1e-4, 1, 5);
  for (int64_t i = 0; i < 5; ++i) CHECK(range.lr(i) == Approx(std::pow(10.0, i - 4)));
}

TEST_CASE("the test suggests where the loss falls fastest, and ends where it diverges",
          "[analysis][study]") {
  const auto range = range_of(0.02);
  CHECK(range.diverged());
  CHECK(range.steps().size() < 200);
  CHECK(range.steps().back().loss > 4);  // the lowest is about 1
  const auto suggestions = range.suggestions();
  REQUIRE(suggestions);
  CHECK(suggestions->steepest > 0.003);
  CHECK(suggestions->steepest < 0.06);
  CHECK(suggestions->valley > 0.0005);
  CHECK(suggestions->valley < 0.3);
  const auto smooth = range.smoothed();
  const auto lowest = std::min_element(smooth.begin(), smooth.end()) - smooth.begin();
  CHECK(suggestions->minimum_tenth == Approx(range.steps()[static_cast<size_t>(lowest)].lr / 10));
  CHECK(json_of(range)["suggestion"] == suggestions->steepest);
  CHECK_THAT(suggestion_text(range), Contains("falls fastest"));
  const auto plot = text_of(range, 80, false);
  CHECK(std::count(plot.begin(), plot.end(), '\n') == 16);
  CHECK_THAT(plot, !Contains("\x1b") && Contains("0.01"));
  CHECK_THAT(lr_range_page(range, "a <recipe>"),
             Contains("a &lt;recipe&gt;") && Contains("valley"));
}

TEST_CASE("a curve that is too noisy suggests nothing", "[analysis][study]") {
  const auto noise_of = [](uint64_t seed, int64_t steps) {
    LrRange noise(1e-5, 1, steps);
    for (uint64_t i = 0;; ++i) {
      Random random(seed, "test.noise", 0, i);
      if (!noise.add(2.3 + 0.3 * random.normal())) return noise;
    }
  };
  int suggested = 0;
  for (uint64_t seed = 0; seed < 200; ++seed)
    for (const int64_t steps : {20, 100, 400})
      suggested += noise_of(seed, steps).suggestions().has_value();
  CHECK(suggested <= 6);  // of 600
  const auto noise = noise_of(17, 100);
  CHECK_FALSE(noise.problem().empty());
  CHECK(json_of(noise)["suggestion"].is_null());
  CHECK_THAT(suggestion_text(noise), Contains("no suggestion"));
}

TEST_CASE("a loss that is not finite ends the test", "[analysis][study]") {
  LrRange range(1e-5, 1, 100);
  CHECK(range.add(2));
  CHECK_FALSE(range.add(NAN));
  CHECK(range.diverged());
  CHECK(range.steps().size() == 1);
  CHECK_FALSE(range.add(1));
  CHECK_FALSE(range.suggestions());
}

}  // namespace composer::lr_range_test

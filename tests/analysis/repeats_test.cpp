// Means, their noise, and what differences are beyond it.
#include <array>
#include <catch2/catch.hpp>
#include <cmath>

#include "analysis/study.h"

namespace composer::repeats_test {

TEST_CASE("means and standard deviations of repetitions", "[analysis][study]") {
  const auto repeats = repeats_of({2, 4, 4, 4, 5, 5, 7, 9});
  CHECK(repeats.count == 8);
  CHECK(repeats.mean == 5);
  CHECK(repeats.deviation == Approx(std::sqrt(32.0 / 7)));
  CHECK(std::isnan(repeats_of({}).mean));
  CHECK(repeats_of({3}).mean == 3);
  CHECK(repeats_of({0.1, 0.1, 0.1}).mean == 0.1);
  CHECK(repeats_of({0.1, 0.1, 0.1}).deviation == 0);
  CHECK(std::isnan(repeats_of({3}).deviation));
}

TEST_CASE("quantiles of Student's t are those of the tables", "[analysis][study]") {
  // Fisher and Yates, two-sided 5 %.
  for (const auto& [degrees, quantile] : {std::pair{1.0, 12.70620},
                                          {2.0, 4.302653},
                                          {4.0, 2.776445},
                                          {10.0, 2.228139},
                                          {30.0, 2.042272},
                                          {1e6, 1.959966}}) {
    INFO(degrees);
    CHECK(student_quantile(0.975, degrees) == Approx(quantile).epsilon(1e-6));
    CHECK(student_quantile(0.025, degrees) == Approx(-quantile).epsilon(1e-6));
  }
  CHECK(student_quantile(0.95, 5) == Approx(2.015048).epsilon(1e-6));
  CHECK(student_quantile(0.5, 3) == Approx(0).margin(1e-9));
}

TEST_CASE("differences have Welch's interval", "[analysis][study]") {
  // t and degrees of freedom by hand.
  const auto a = repeats_of(
      {27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1, 21.9, 22.6, 23.1, 19.6, 19.0, 21.7, 21.4});
  const auto b = repeats_of(
      {27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8, 20.2, 21.9, 22.1, 22.9, 30.5, 31.3});
  const auto difference = difference_of(a, b);
  const double variance = (a.deviation * a.deviation + b.deviation * b.deviation) / 15;
  const double t = std::abs(difference.value) / std::sqrt(variance);
  CHECK(t == Approx(2.949237).epsilon(1e-6));
  REQUIRE(difference.margin);
  const double quantile = *difference.margin / std::sqrt(variance);
  CHECK(quantile == Approx(student_quantile(0.975, 27.31161)).epsilon(1e-6));
  CHECK((quantile > 2.0484 && quantile < 2.0518));  // the tables' of 28 and 27
  CHECK(difference.beyond_noise() == true);
  CHECK(difference_of(a, a).beyond_noise() == false);
}

TEST_CASE("noise that was not measured is unknown", "[analysis][study]") {
  const auto once = repeats_of({0.9}), often = repeats_of({0.8, 0.82, 0.81});
  const auto difference = difference_of(often, once);
  CHECK(difference.value == Approx(-0.09));
  CHECK_FALSE(difference.margin);
  CHECK_FALSE(difference.beyond_noise());
  CHECK_FALSE(difference_of(repeats_of({1, 1}), repeats_of({1, 1})).margin);
  CHECK(std::isnan(difference_of(often, repeats_of({})).value));
  CHECK_FALSE(difference_of(often, repeats_of({})).beyond_noise());
}

TEST_CASE("a contrast of four weighs each mean", "[analysis][study]") {
  const std::array parts{
      std::pair(1.0, repeats_of({1.0, 1.2})), std::pair(-1.0, repeats_of({0.7, 0.9})),
      std::pair(-1.0, repeats_of({0.6, 0.8})), std::pair(1.0, repeats_of({0.9, 1.1}))};
  const auto contrast = contrast_of(parts);
  CHECK(contrast.value == Approx(1.1 - 0.8 - 0.7 + 1.0));
  // Four equal variances of two repetitions each: four degrees of freedom.
  CHECK(*contrast.margin == Approx(2.776445 * std::sqrt(4 * 0.02 / 2)).epsilon(1e-6));
}

}  // namespace composer::repeats_test

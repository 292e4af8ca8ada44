#include <catch2/catch.hpp>
#include <cmath>

#include "analysis/line_chart.h"

namespace composer::axis_test {
namespace {

using Ticks = std::vector<double>;

TEST_CASE("ticks are round numbers that enclose the values", "[axis]") {
  const auto axis = Axis::linear(0.13, 0.92);
  CHECK(axis.ticks() == Ticks{0, 0.2, 0.4, 0.6, 0.8, 1});
  CHECK(axis.low() == 0);
  CHECK(axis.high() == 1);
  CHECK(Axis::linear(-3, 17).ticks() == Ticks{-5, 0, 5, 10, 15, 20});
  CHECK(Axis::linear(1e6, 1.2e6).ticks() == Ticks{1e6, 1.05e6, 1.1e6, 1.15e6, 1.2e6});
  CHECK_FALSE(std::signbit(Axis::linear(0, 1).ticks()[0]));
  CHECK_FALSE(std::signbit(Axis::linear(-0.4, 0.9).ticks()[1]));
}

TEST_CASE("an axis may end with its values", "[axis]") {
  const auto axis = Axis::linear(1, 96, Axis::Ends::of_values, 6);
  CHECK(axis.low() == 1);
  CHECK(axis.high() == 96);
  CHECK(axis.ticks() == Ticks{20, 40, 60, 80});
}

TEST_CASE("a value alone has an axis around it", "[axis]") {
  for (const double value : {0.0, 0.1, -3.0, 1e-9, 5e12}) {
    const auto axis = Axis::linear(value, value);
    CAPTURE(value);
    CHECK(axis.low() <= value);
    CHECK(axis.high() > value);
    CHECK(axis.ticks().size() >= 2);
  }
}

TEST_CASE("values whose digits hardly differ, and the largest there are, have few ticks",
          "[axis]") {
  std::vector<std::pair<double, double>> ends{
      {0.77467814855833628, 0.77467814855833639}, {-1e308, 1e308}, {0, 5e-324}, {1e15, 1e15 + 1}};
  for (double low = 0.1; low < 3; low += 0.0137)
    ends.emplace_back(low, std::nextafter(std::nextafter(low, 4), 4));
  for (const auto& [low, high] : ends)
    for (const auto kind : {Axis::Ends::of_values, Axis::Ends::of_ticks}) {
      const auto axis = Axis::linear(low, high, kind);
      CAPTURE(low, high);
      CHECK(std::isfinite(axis.high() - axis.low()));
      CHECK(axis.low() < axis.high());
      CHECK(axis.ticks().size() <= 13);
    }
  const auto wide = Axis::logarithmic(5e-324, 1e308);
  CHECK(wide.low() > 0);
  CHECK(std::isfinite(wide.high()));
}

TEST_CASE("what is counted has whole ticks", "[axis]") {
  CHECK(Axis::counting(1).ticks() == Ticks{0, 1});
  CHECK(Axis::counting(0).ticks() == Ticks{0, 1});
  CHECK(Axis::counting(4).ticks() == Ticks{0, 1, 2, 3, 4});
  CHECK(Axis::counting(13).ticks() == Ticks{0, 5, 10});
  CHECK(Axis::counting(13).high() == 13);
  CHECK(Axis::counting(140).ticks() == Ticks{0, 25, 50, 75, 100, 125});
}

TEST_CASE("marks are ticks as far as there is room", "[axis]") {
  const auto axis = Axis::of_marks({32, 16, 24, 24.1});
  CHECK(axis.ticks() == Ticks{16, 24, 32});
  CHECK(axis.low() < 16);
  CHECK(axis.high() > 32);
  CHECK(Axis::of_marks({224}).place(224) == Approx(0.5).margin(0.1));
  CHECK(axis.times(2).ticks() == Ticks{32, 48, 64});
}

TEST_CASE("places are shares of the axis", "[axis]") {
  const auto axis = Axis::linear(0, 10);
  CHECK(axis.place(2.5) == 0.25);
  CHECK(axis.place(-1) == 0);
  CHECK(axis.place(11) == 1);
  CHECK(std::isnan(axis.place(NAN)));
}

TEST_CASE("a logarithmic axis has powers of ten, and what lies between where these are few",
          "[axis]") {
  const auto wide = Axis::logarithmic(2e-5, 0.3);
  CHECK(wide.low() == Approx(2e-5));
  CHECK(wide.high() == Approx(0.5));
  CHECK(wide.ticks().size() == 4);
  CHECK(wide.place(0) == 0);
  CHECK(wide.place(-1) == 0);
  const auto narrow = Axis::logarithmic(0.9, 40);
  REQUIRE(narrow.ticks().size() == 7);
  CHECK(narrow.ticks().front() == Approx(0.5));
  CHECK(narrow.ticks().back() == Approx(50));
  CHECK(Axis::logarithmic(1, 100).place(10) == Approx(0.5));
  CHECK(Axis::logarithmic(1, 1).high() > 1);
}

TEST_CASE("long runs are drawn against longer units of time", "[axis]") {
  CHECK(time_unit_for(100).name == "seconds");
  CHECK(time_unit_for(1000).name == "minutes");
  CHECK(time_unit_for(10000).name == "hours");
  CHECK(time_unit_for(1e6).seconds == 86400);
}

}  // namespace
}  // namespace composer::axis_test

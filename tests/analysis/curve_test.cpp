#include "analysis/curve.h"

#include <catch2/catch.hpp>
#include <cmath>

namespace composer::curve_test {
namespace {

template <class Value>
Curve curve_of_size(int64_t size, const Value& value) {
  Curve curve{"loss/train", {}};
  for (int64_t i = 0; i < size; ++i)
    curve.points.push_back({i + 1, i * 8, static_cast<double>(i) / 2, value(i)});
  return curve;
}

TEST_CASE("a curve is what the log has of a metric", "[curve]") {
  const std::vector<LogEntry> log{{"batch", 0, 1, 8, 0.5, {{"loss/train", 3}, {"lr", 1}}},
                                  {"batch", 0, 2, 16, 1, {{"loss/train", 2}, {"a", 7}}},
                                  {"epoch", 1, 2, 16, 1.25, {{"a", 7}}}};
  const auto loss = curve_of(log, "loss/train");
  REQUIRE(loss.points.size() == 2);
  CHECK(loss.points[1].at(Against::batch) == 2);
  CHECK(loss.points[1].at(Against::sample) == 16);
  CHECK(loss.points[1].at(Against::seconds) == 1);
  CHECK(loss.points[1].value == 2);
  CHECK(curve_of(log, "a").points.size() == 1);
  CHECK(curve_of(log, "a", "epoch").points.at(0).seconds == 1.25);
  CHECK(curve_of(log, "loss/train", "epoch").points.empty());
  CHECK(metrics_of(log) == std::set<std::string>{"a", "loss/train", "lr"});
}

TEST_CASE("a thinned curve keeps its ends, its peaks and its gaps", "[curve]") {
  const auto whole = curve_of_size(100'000, [](int64_t i) {
    if (i == 71'113) return 50.0;
    if (i == 33'331) return -50.0;
    if (i == 50'000) return std::numeric_limits<double>::quiet_NaN();
    return std::sin(static_cast<double>(i));
  });
  const auto thin = thinned(whole, 2000);
  CHECK(thin.points.size() <= 2000);
  CHECK(thin.points.size() > 1000);
  CHECK(thin.points.front().batch == 1);
  CHECK(thin.points.back().batch == 100'000);
  const auto count = [&](auto&& fits) { return std::ranges::count_if(thin.points, fits); };
  CHECK(count([](const auto& point) { return point.value == 50; }) == 1);
  CHECK(count([](const auto& point) { return point.value == -50; }) == 1);
  CHECK(count([](const auto& point) { return std::isnan(point.value); }) == 1);
  CHECK(std::ranges::is_sorted(thin.points, {}, &Curve::Point::batch));
  CHECK(thinned(thin, 5000).points.size() == thin.points.size());
}

TEST_CASE("a trend is the mean around each point, gaps left out", "[curve]") {
  const auto noisy = curve_of_size(800, [](int64_t i) {
    return i == 400 ? std::numeric_limits<double>::quiet_NaN() : i % 2 == 0 ? 1.0 : 3.0;
  });
  CHECK(is_noisy(noisy));
  const auto smooth = smoothed(noisy, trend_reach(noisy));
  REQUIRE(smooth.points.size() == 800);
  CHECK(smooth.points[200].value == Approx(2).margin(0.1));
  CHECK(smooth.points[0].value == Approx(2).margin(0.1));
  CHECK(smooth.points[799].value == Approx(2).margin(0.1));
  CHECK(std::isnan(smooth.points[400].value));
  CHECK(smooth.points[401].value == Approx(2).margin(0.1));
  // However large a value is, only the means around it know of it.
  const auto spike = smoothed(
      curve_of_size(800, [](int64_t i) { return i == 300 ? 1e25 : static_cast<double>(i % 2); }),
      trend_reach(noisy));
  CHECK(spike.points[300].value > 1e20);
  for (const size_t place : {0U, 250U, 289U, 311U, 400U, 799U})
    CHECK(spike.points[place].value == Approx(0.5).margin(0.05));
  CHECK_FALSE(is_noisy(curve_of_size(800, [](int64_t i) { return static_cast<double>(i); })));
  CHECK_FALSE(is_noisy(curve_of_size(50, [](int64_t i) { return i % 2 == 0 ? 1.0 : 3.0; })));
}

TEST_CASE("a curve hides another where most points are the same", "[curve]") {
  const auto line = [](int64_t size, int64_t turn) {
    return curve_of_size(size, [=](int64_t i) { return static_cast<double>(i < turn ? i : -i); });
  };
  CHECK(coincide(line(100, 100), line(100, 100)));
  CHECK(coincide(line(100, 100), line(100, 60)));
  CHECK(coincide(line(50, 50), line(100, 60)));
  CHECK_FALSE(coincide(line(100, 100), line(100, 40)));
  CHECK_FALSE(coincide(line(100, 100), Curve{}));
}

TEST_CASE("only finite values can be drawn", "[curve]") {
  CHECK_FALSE(has_points(Curve{}));
  CHECK_FALSE(has_points(curve_of_size(3, [](int64_t) { return INFINITY; })));
  CHECK(has_points(curve_of_size(3, [](int64_t i) { return i == 1 ? 1.0 : NAN; })));
}

}  // namespace
}  // namespace composer::curve_test

#include "analysis/curve.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace composer {
namespace {

constexpr size_t few_points = 120;

}  // namespace

std::string_view name(Against against) {
  static constexpr std::string_view names[] = {"batch", "sample", "seconds"};
  return names[static_cast<size_t>(against)];
}

double Curve::Point::at(Against against) const {
  switch (against) {
    case Against::batch:
      return static_cast<double>(batch);
    case Against::sample:
      return static_cast<double>(sample);
    default:
      return seconds;
  }
}

Curve curve_of(const std::vector<LogEntry>& log, const std::string& metric) {
  Curve curve{metric, {}};
  for (const auto& entry : log) {
    const auto found = entry.values.find(metric);
    if (found == entry.values.end()) continue;
    const Curve::Point point{entry.batch, entry.sample, entry.seconds, found->second};
    const bool again = !curve.points.empty() && curve.points.back().batch == point.batch &&
                       curve.points.back().value == point.value;
    if (again)
      curve.points.back() = point;
    else
      curve.points.push_back(point);
  }
  return curve;
}

std::vector<std::string> metrics_of(const std::vector<LogEntry>& log) {
  std::set<std::string> names;
  for (const auto& entry : log)
    for (const auto& [name, value] : entry.values) names.insert(name);
  return {names.begin(), names.end()};
}

Curve thinned(const Curve& curve, size_t most) {
  const auto& all = curve.points;
  if (all.size() <= most || most < 8) return curve;
  Curve thin{curve.metric, {}};
  std::vector<size_t> kept{0};
  const size_t stretches = (most - 2) / 3;
  for (size_t i = 0; i < stretches; ++i) {
    const size_t begin = all.size() * i / stretches, end = all.size() * (i + 1) / stretches;
    std::set<size_t> picked;
    size_t smallest = end, largest = end;
    for (size_t place = begin; place < end; ++place) {
      if (!std::isfinite(all[place].value)) {
        picked.insert(place);
        if (picked.size() > 1) picked.erase(std::prev(picked.end()));
        continue;
      }
      if (smallest == end || all[place].value < all[smallest].value) smallest = place;
      if (largest == end || all[place].value >= all[largest].value) largest = place;
    }
    if (smallest != end) picked.insert({smallest, largest});
    kept.insert(kept.end(), picked.begin(), picked.end());
  }
  kept.push_back(all.size() - 1);
  kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
  for (const size_t place : kept) thin.points.push_back(all[place]);
  return thin;
}

Curve smoothed(const Curve& curve) {
  const size_t reach = std::max<size_t>(curve.points.size() / 80, 1);
  Curve smooth = curve;
  double sum = 0;
  int64_t count = 0;
  const auto take = [&](size_t place, int64_t sign) {
    const double value = curve.points[place].value;
    if (std::isfinite(value)) sum += static_cast<double>(sign) * value, count += sign;
  };
  const size_t size = curve.points.size();
  for (size_t place = 0; place < std::min(reach, size); ++place) take(place, 1);
  for (size_t place = 0; place < size; ++place) {
    if (place + reach < size) take(place + reach, 1);
    if (place > reach) take(place - reach - 1, -1);
    if (std::isfinite(curve.points[place].value))
      smooth.points[place].value = sum / static_cast<double>(count);
    else
      smooth.points[place].value = std::numeric_limits<double>::quiet_NaN();
  }
  return smooth;
}

bool has_points(const Curve& curve) {
  return std::ranges::any_of(curve.points,
                             [](const auto& point) { return std::isfinite(point.value); });
}

bool is_noisy(const Curve& curve) {
  if (curve.points.size() <= few_points) return false;
  double turns = 0, steps = 0;
  for (size_t i = 2; i < curve.points.size(); ++i) {
    const double before = curve.points[i - 1].value - curve.points[i - 2].value;
    const double after = curve.points[i].value - curve.points[i - 1].value;
    if (!std::isfinite(before) || !std::isfinite(after)) continue;
    ++steps;
    if (before * after < 0) ++turns;
  }
  return turns > steps * 0.25;
}

}  // namespace composer

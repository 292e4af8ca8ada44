#include "analysis/curve.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace composer {

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

Curve curve_of(const std::vector<LogEntry>& log, const std::string& metric,
               std::string_view event) {
  Curve curve{metric, {}};
  for (const auto& entry : log) {
    if (!event.empty() && entry.event != event) continue;
    const auto found = entry.values.find(metric);
    if (found == entry.values.end()) continue;
    const Curve::Point point{entry.batch, entry.sample, entry.seconds, found->second};
    if (!curve.points.empty() && curve.points.back().batch == point.batch &&
        curve.points.back().value == point.value)
      curve.points.pop_back();
    curve.points.push_back(point);
  }
  return curve;
}

std::set<std::string> metrics_of(const std::vector<LogEntry>& log) {
  std::set<std::string> names;
  for (const auto& entry : log)
    for (const auto& [name, value] : entry.values) names.insert(name);
  return names;
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

size_t trend_reach(const Curve& curve) { return std::max<size_t>(curve.points.size() / 80, 1); }

Curve smoothed(const Curve& curve, size_t reach) {
  struct Sum {
    double sum = 0, count = 0;
    Sum with(double value) const {
      return std::isfinite(value) ? Sum{sum + value, count + 1} : *this;
    }
  };
  const auto& points = curve.points;
  const size_t size = points.size(), width = 2 * reach + 1;
  // In blocks as wide as a window, each window is the end of one block and the beginning of the
  // next, so that no sum holds a value from outside the window, however large.
  std::vector<Sum> to_here(size), from_here(size);
  for (size_t i = 0; i < size; ++i)
    to_here[i] = (i % width == 0 ? Sum() : to_here[i - 1]).with(points[i].value);
  for (size_t i = size; i-- > 0;)
    from_here[i] =
        (i + 1 == size || (i + 1) % width == 0 ? Sum() : from_here[i + 1]).with(points[i].value);
  Curve smooth = curve;
  for (size_t i = 0; i < size; ++i) {
    const size_t first = i > reach ? i - reach : 0, last = std::min(i + reach, size - 1);
    Sum window = first / width == last / width ? Sum() : from_here[first];
    if (first / width == last / width)
      for (size_t k = first; k <= last; ++k) window = window.with(points[k].value);
    else
      window.sum += to_here[last].sum, window.count += to_here[last].count;
    smooth.points[i].value = std::isfinite(points[i].value)
                                 ? window.sum / window.count
                                 : std::numeric_limits<double>::quiet_NaN();
  }
  return smooth;
}

bool has_points(const Curve& curve) {
  return std::ranges::any_of(curve.points,
                             [](const auto& point) { return std::isfinite(point.value); });
}

bool coincide(const Curve& curve, const Curve& other) {
  size_t place = 0, same = 0;
  for (const auto& point : curve.points) {
    while (place < other.points.size() && other.points[place].batch < point.batch) ++place;
    if (place == other.points.size()) break;
    if (other.points[place].batch == point.batch && other.points[place].value == point.value)
      ++same;
  }
  return same * 2 > curve.points.size();
}

bool is_noisy(const Curve& curve) {
  constexpr size_t few_points = 120;
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

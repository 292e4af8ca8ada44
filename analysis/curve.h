// The values of one metric in one run's log, as points that can be drawn.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/run.h"

namespace composer {

/// What a curve is drawn against.
enum class Against { batch, sample, seconds };
inline constexpr Against all_against[] = {Against::batch, Against::sample, Against::seconds};
/// "batch", "sample", "seconds".
std::string_view name(Against against);

struct Curve {
  struct Point {
    int64_t batch, sample;
    double seconds, value;

    double at(Against against) const;
  };

  std::string metric;
  std::vector<Point> points;  ///< in order of time; values may be NaN or infinite
};

/// Every value of `metric` in the log, or only those of `event`. Of equal values at one batch (the
/// records of the batch and of its epoch) only the last is kept.
Curve curve_of(const std::vector<LogEntry>& log, const std::string& metric,
               std::string_view event = {});

/// The metrics of a log, in order of their names.
std::set<std::string> metrics_of(const std::vector<LogEntry>& log);

/// At most about `most` points that draw the same picture: the smallest and the largest value of
/// each stretch, one gap if the stretch has any, and the first and the last point of all.
Curve thinned(const Curve& curve, size_t most);

/// The running mean over `reach` points to each side. Values that are not finite do not count and
/// stay gaps.
Curve smoothed(const Curve& curve, size_t reach);

/// The reach that suits a noisy curve: with it the mean is over a fortieth of the curve.
size_t trend_reach(const Curve& curve);

/// Whether any value is finite.
bool has_points(const Curve& curve);

/// Whether most points of `curve` are also points of `other`, so that one drawing hides the other.
bool coincide(const Curve& curve, const Curve& other);

/// Whether there are so many points that their noise hides the trend.
bool is_noisy(const Curve& curve);

}  // namespace composer

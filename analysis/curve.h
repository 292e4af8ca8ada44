// What one run logged of one metric, as points that can be drawn.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/run_log.h"

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

/// Every place of the log where `metric` stands; with an `event`, those of this one. Of several at
/// one batch (a batch's and its epoch's record) the last stays, where they agree.
Curve curve_of(const std::vector<LogEntry>& log, const std::string& metric,
               std::string_view event = {});

/// The metrics of a log, in order of their names.
std::vector<std::string> metrics_of(const std::vector<LogEntry>& log);

/// At most about `most` points that draw the same picture: of each stretch the smallest and the
/// largest value, and a gap where it has one; the first and the last of all.
Curve thinned(const Curve& curve, size_t most);

/// The mean over the points around each, `reach` to each side: the trend of a noisy one. Values
/// that are not finite do not count, and stay gaps.
Curve smoothed(const Curve& curve, size_t reach);

/// The reach that suits a noisy curve: with it the mean is over a fortieth of the curve.
size_t trend_reach(const Curve& curve);

/// Whether any value is finite.
bool has_points(const Curve& curve);

/// Whether most of the points of `curve` are points of `other` too, whose drawing hides them.
bool coincide(const Curve& curve, const Curve& other);

/// Whether there are so many points that their noise hides the trend.
bool is_noisy(const Curve& curve);

}  // namespace composer

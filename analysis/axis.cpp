#include "analysis/axis.h"

#include <algorithm>
#include <cmath>

namespace composer {
namespace {

/// The least of 1, 2, 2.5, 5 times a power of ten that is at least `step`.
double nice_step(double step) {
  const double power = std::pow(10, std::floor(std::log10(step)));
  for (const double factor : {1.0, 2.0, 2.5, 5.0})
    if (factor * power >= step * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

/// i * step without the error that a sum would gather.
double multiple(double step, double i) {
  const double value = i * step + 0.0;  // never -0
  const double digits = std::pow(10, 3 - std::floor(std::log10(step)));
  return std::isfinite(digits) ? std::round(value * digits) / digits + 0.0 : value;
}

}  // namespace

Axis Axis::linear(double low, double high, Ends ends, int steps) {
  if (low == high) {
    const double margin = low == 0 ? 1 : std::abs(low) * 0.1;
    if (ends == Ends::of_ticks || low == 0) low -= low == 0 ? 0 : margin;
    high += margin;
  }
  Axis axis;
  const double step = nice_step((high - low) / steps);
  const double slack = 1e-6;
  if (ends == Ends::of_ticks) {
    low = multiple(step, std::floor(low / step + slack));
    high = multiple(step, std::ceil(high / step - slack));
  }
  for (double i = std::ceil(low / step - slack); i <= std::floor(high / step + slack); ++i)
    axis.ticks_.push_back(multiple(step, i));
  axis.low_ = low, axis.high_ = high;
  return axis;
}

Axis Axis::logarithmic(double low, double high) {
  Axis axis;
  axis.kind_ = Kind::logarithmic;
  const auto around = [](double value, bool above) {
    const double power = std::pow(10, std::floor(std::log10(value)));
    double nearest = power;
    for (const double factor : {1.0, 2.0, 5.0, 10.0}) {
      const double mark = factor * power;
      if (above && mark >= value * (1 - 1e-9)) return mark;
      if (mark <= value * (1 + 1e-9)) nearest = mark;
    }
    return nearest;
  };
  axis.low_ = around(low, false), axis.high_ = around(high, true);
  if (axis.low_ == axis.high_) axis.high_ *= 10;
  const double first = std::floor(std::log10(axis.low_)), last = std::log10(axis.high_);
  const double every = std::ceil((last - first) / 6);
  const bool few = last - std::log10(axis.low_) <= 2.5;
  for (double power = first; power <= last + 1e-9; power += every)
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double tick = factor * std::pow(10, power);
      const bool inside = tick >= axis.low_ * (1 - 1e-9) && tick <= axis.high_ * (1 + 1e-9);
      if (inside && (few || factor == 1)) axis.ticks_.push_back(tick);
    }
  return axis;
}

double Axis::place(double value) const {
  if (std::isnan(value)) return value;
  if (kind_ == Kind::linear) return std::clamp((value - low_) / (high_ - low_), 0.0, 1.0);
  if (value <= low_) return 0;
  return std::min(std::log(value / low_) / std::log(high_ / low_), 1.0);
}

TimeUnitOfAxis time_unit_for(double longest) {
  if (longest > 3 * 86400) return {"days", 86400};
  if (longest > 2 * 3600) return {"hours", 3600};
  if (longest > 180) return {"minutes", 60};
  return {"seconds", 1};
}

}  // namespace composer

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
  const double value = i * step + 0.0;  // + 0.0 turns -0 into 0
  const double digits = std::pow(10, 3 - std::floor(std::log10(step)));
  return std::isfinite(digits) ? std::round(value * digits) / digits + 0.0 : value;
}

constexpr double largest = 1e300, smallest = 1e-300, slack = 1e-6;

}  // namespace

void Axis::add_ticks(double step) {
  const auto first = std::llround(std::ceil(low_ / step - slack));
  const auto last = std::llround(std::floor(high_ / step + slack));
  for (auto i = first; i <= last; ++i) ticks_.push_back(multiple(step, static_cast<double>(i)));
}

Axis Axis::linear(double low, double high, Ends ends, int steps) {
  low = std::clamp(low, -largest, largest), high = std::clamp(high, -largest, largest);
  const double size = std::max(std::abs(low), std::abs(high));
  if (high - low <= std::max(1e-12 * size, smallest)) {  // too little to be divided
    const double margin = size <= smallest ? 1 : size * 0.1;
    if (ends == Ends::of_ticks && size > smallest) low -= margin;
    high += margin;
  }
  Axis axis;
  const double step = nice_step((high - low) / steps);
  if (ends == Ends::of_ticks) {
    low = multiple(step, std::floor(low / step + slack));
    high = multiple(step, std::ceil(high / step - slack));
  }
  axis.low_ = low, axis.high_ = high;
  axis.add_ticks(step);
  return axis;
}

Axis Axis::counting(double high) {
  constexpr int steps = 6;
  Axis axis;
  axis.high_ = std::clamp(high, 1.0, largest);
  const double step = nice_step(axis.high_ / steps);
  axis.add_ticks(step < 1 ? 1 : step == 2.5 ? 5 : step);
  return axis;
}

Axis Axis::of_marks(std::vector<double> marks) {
  std::ranges::sort(marks);
  const double low = marks.front(), high = marks.back();
  if (low == high) return linear(low, high);
  constexpr double margin = 0.06, least_gap = 0.07;
  Axis axis;
  axis.low_ = low - margin * (high - low), axis.high_ = high + margin * (high - low);
  for (const double mark : marks)
    if (axis.ticks_.empty() || axis.place(mark) - axis.place(axis.ticks_.back()) >= least_gap)
      axis.ticks_.push_back(mark);
  return axis;
}

Axis Axis::times(double factor) const {
  Axis axis = *this;
  axis.low_ *= factor, axis.high_ *= factor;
  for (double& tick : axis.ticks_) tick *= factor;
  return axis;
}

Axis Axis::logarithmic(double low, double high) {
  low = std::clamp(low, smallest, largest), high = std::clamp(high, smallest, largest);
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

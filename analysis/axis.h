// The scale of a chart: which values it spans, where each lies on it, and what stands beside it.
#pragma once

#include <string>
#include <vector>

namespace composer {

class Axis {
 public:
  enum class Kind { linear, logarithmic };
  enum class Ends {
    of_values,  ///< the axis ends at the smallest and the largest value
    of_ticks,   ///< the axis ends at the ticks around the values
  };

  /// An axis for values from `low` to `high`, which are finite and may be equal; a logarithmic axis
  /// needs values above 0. `steps`: about how many ticks are wanted, at least 2. Values beyond
  /// 1e300 lie at an end.
  static Axis linear(double low, double high, Ends ends = Ends::of_ticks, int steps = 5);
  static Axis logarithmic(double low, double high);
  /// From 0 to `high`, with whole numbers for ticks.
  static Axis counting(double high);
  /// An axis whose ticks are `marks`, at least one, as far as there is room; the values lie on or
  /// between the marks.
  static Axis of_marks(std::vector<double> marks);

  /// The same axis in a unit that is 1 / `factor` of this axis's unit.
  Axis times(double factor) const;

  Kind kind() const { return kind_; }
  double low() const { return low_; }
  double high() const { return high_; }
  /// Ascending, all within the ends. The ticks of a linear axis are multiples of 1, 2, 2.5 or 5
  /// times a power of ten; the ticks of a logarithmic axis are powers of ten, and 2 and 5 times
  /// these if there are few.
  const std::vector<double>& ticks() const { return ticks_; }

  /// The position of `value`: 0 at low(), 1 at high(). Values beyond the ends, or below 0 on a
  /// logarithmic axis, are put on the ends; NaN stays NaN.
  double place(double value) const;

 private:
  void add_ticks(double step);

  Kind kind_ = Kind::linear;
  double low_ = 0, high_ = 1;
  std::vector<double> ticks_;
};

/// The unit of time in which `longest` seconds are told.
struct TimeUnitOfAxis {
  std::string name;  ///< "seconds", "minutes", "hours" or "days"
  double seconds;
};
TimeUnitOfAxis time_unit_for(double longest);

}  // namespace composer

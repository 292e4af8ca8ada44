// The scale of a chart: which values it spans, where each lies on it, and what stands beside it.
#pragma once

#include <string>
#include <vector>

namespace composer {

class Axis {
 public:
  enum class Kind { linear, logarithmic };
  enum class Ends {
    of_values,  ///< the smallest and the largest value
    of_ticks,   ///< the ticks around them
  };

  /// An axis for values from `low` to `high`, which are finite and may be equal. Logarithmic: above
  /// 0. steps: about so many ticks are wanted, at least 2. Beyond 1e300 everything lies at an end.
  static Axis linear(double low, double high, Ends ends = Ends::of_ticks, int steps = 5);
  static Axis logarithmic(double low, double high);
  /// From 0 to `high`, with whole numbers for ticks.
  static Axis counting(double high);
  /// For values that are these or lie between them, one at least, which are the ticks as far as
  /// there is room.
  static Axis of_marks(std::vector<double> marks);

  /// The same in a unit that is 1 / `factor` of this one's.
  Axis times(double factor) const;

  Kind kind() const { return kind_; }
  double low() const { return low_; }
  double high() const { return high_; }
  /// Ascending, all within the ends: of a linear axis multiples of 1, 2, 2.5 or 5 times a power of
  /// ten; of a logarithmic one powers of ten, with 2 and 5 times these where it has few.
  const std::vector<double>& ticks() const { return ticks_; }

  /// 0 at low(), 1 at high(). Values beyond the ends, or below 0 on a logarithmic axis, are put on
  /// them; NaN stays.
  double place(double value) const;

 private:
  void add_ticks(double step);

  Kind kind_ = Kind::linear;
  double low_ = 0, high_ = 1;
  std::vector<double> ticks_;
};

/// Seconds in the unit that suits `longest` of them.
struct TimeUnitOfAxis {
  std::string name;  ///< "seconds", "minutes", "hours" or "days"
  double seconds;
};
TimeUnitOfAxis time_unit_for(double longest);

}  // namespace composer

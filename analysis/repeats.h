// Numbers that were measured again and again, and what their differences say.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace composer {

/// What repetitions came to.
struct Repeats {
  int64_t count = 0;
  double mean = 0;       ///< NaN without any
  double deviation = 0;  ///< standard deviation of one repetition (n - 1); NaN below two
};

Repeats repeats_of(const std::vector<double>& values);

/// The value that Student's t is below with the probability, in (0, 1); degrees of freedom above 0,
/// not necessarily whole.
double student_quantile(double probability, double degrees);

/// A sum of means, each times its weight, and how far it is known.
struct Contrast {
  double value = 0;  ///< NaN where a mean is missing
  /// Half of its 95 % interval; nothing where the noise is unknown: a part was not repeated, or all
  /// parts' repetitions were the same.
  std::optional<double> margin;

  /// Whether the interval leaves out 0; nothing where the noise is unknown.
  std::optional<bool> beyond_noise() const;
};

/// Of independent repetitions whose noise need not be alike: Student's t with the degrees of
/// freedom of Welch (1947, "The generalization of Student's problem") and Satterthwaite.
Contrast contrast_of(std::span<const std::pair<double, Repeats>> parts);

/// a - b.
Contrast difference_of(const Repeats& a, const Repeats& b);

}  // namespace composer

#include "analysis/repeats.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace composer {
namespace {

/// The continued fraction of the incomplete beta function, by Lentz's method.
double beta_fraction(double a, double b, double x) {
  constexpr double tiny = 1e-300, enough = 1e-15;
  constexpr int most_terms = 10'000;
  const auto away_from_zero = [](double value) { return std::abs(value) < tiny ? tiny : value; };
  double c = 1, d = 1 / away_from_zero(1 - (a + b) * x / (a + 1)), product = d;
  for (int i = 1; i <= most_terms; ++i) {
    const double m = i;
    const std::array terms{m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
                           -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))};
    double factor = 1;
    for (const double term : terms) {
      d = 1 / away_from_zero(1 + term * d);
      c = away_from_zero(1 + term / c);
      factor = c * d;
      product *= factor;
    }
    if (std::abs(factor - 1) < enough) break;
  }
  return product;
}

/// Regularized: the share of Beta(a, b) below x, in [0, 1].
double incomplete_beta(double a, double b, double x) {
  if (x <= 0 || x >= 1) return x <= 0 ? 0 : 1;
  const double front = std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) +
                                a * std::log(x) + b * std::log1p(-x));
  if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(a, b, x) / a;
  return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

/// The probability that Student's t is above `t`, which is not negative.
double student_tail(double t, double degrees) {
  return incomplete_beta(degrees / 2, 0.5, degrees / (degrees + t * t)) / 2;
}

constexpr double confidence = 0.95;

}  // namespace

Repeats repeats_of(const std::vector<double>& values) {
  const auto count = static_cast<double>(values.size());
  Repeats repeats{std::ssize(values), NAN, NAN};
  if (values.empty()) return repeats;
  if (std::ranges::all_of(values, [&](double value) { return value == values[0]; })) {
    repeats.mean = values[0];  // a sum would round
    if (values.size() > 1) repeats.deviation = 0;
    return repeats;
  }
  double sum = 0, squares = 0;
  for (const double value : values) sum += value;
  repeats.mean = sum / count;
  for (const double value : values) squares += (value - repeats.mean) * (value - repeats.mean);
  if (values.size() > 1) repeats.deviation = std::sqrt(squares / (count - 1));
  return repeats;
}

double student_quantile(double probability, double degrees) {
  if (probability < 0.5) return -student_quantile(1 - probability, degrees);
  const double tail = 1 - probability;
  double low = 0, high = 1;
  while (student_tail(high, degrees) > tail && high < 1e300) low = high, high *= 2;
  constexpr int halvings = 200;
  for (int i = 0; i < halvings && low < high; ++i) {
    const double middle = low + (high - low) / 2;
    if (middle == low || middle == high) break;
    (student_tail(middle, degrees) > tail ? low : high) = middle;
  }
  return low + (high - low) / 2;
}

std::optional<bool> Contrast::beyond_noise() const {
  if (!margin || std::isnan(value)) return {};
  return std::abs(value) > *margin;
}

Contrast contrast_of(std::span<const std::pair<double, Repeats>> parts) {
  Contrast contrast;
  double variance = 0, of_degrees = 0;
  bool repeated = true;
  for (const auto& [weight, repeats] : parts) {
    contrast.value += weight * repeats.mean;
    if (repeats.count < 2) {
      repeated = false;
      continue;
    }
    const auto count = static_cast<double>(repeats.count);
    const double of_mean = weight * weight * repeats.deviation * repeats.deviation / count;
    variance += of_mean;
    of_degrees += of_mean * of_mean / (count - 1);
  }
  if (!repeated || !(variance > 0) || !std::isfinite(variance)) return contrast;
  const double degrees = variance * variance / of_degrees;
  contrast.margin = student_quantile((1 + confidence) / 2, degrees) * std::sqrt(variance);
  return contrast;
}

Contrast difference_of(const Repeats& a, const Repeats& b) {
  const std::array parts{std::pair(1.0, a), std::pair(-1.0, b)};
  return contrast_of(parts);
}

}  // namespace composer

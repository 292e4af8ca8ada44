#include "algorithms/augmentation/magnitudes.h"

#include <cmath>

namespace composer {

float evenly_spaced(double first, double last, int64_t n, int64_t i) {
  const auto low = static_cast<float>(first), high = static_cast<float>(last);
  const double step = (high - low) / static_cast<float>(n - 1);
  const double value = i < n / 2 ? low + step * static_cast<double>(i)
                                 : high - step * static_cast<double>(n - 1 - i);
  return static_cast<float>(value);
}

double posterize_bits(double most, int64_t n, int64_t i) {
  const auto steps_a_bit = static_cast<float>(static_cast<double>(n - 1) / most);
  return 8 - std::nearbyint(static_cast<float>(i) / steps_a_bit);
}

}  // namespace composer

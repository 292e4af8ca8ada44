// Magnitudes in equal steps, as the spaces of autoaugment and trivialaugment have them.
#pragma once

#include <cstdint>

namespace composer {

/// Number i of n >= 2 from first to last; float32 as torch.linspace's, of which a fraction may be
/// cut off later.
float evenly_spaced(double first, double last, int64_t n, int64_t i);

/// Bits that posterize leaves at number i of n >= 2: from 8 down to 8 - most.
double posterize_bits(double most, int64_t n, int64_t i);

}  // namespace composer

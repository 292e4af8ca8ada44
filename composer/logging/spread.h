// How a tensor's numbers are spread, computed where they are.
#pragma once

#include <ATen/ATen.h>

namespace composer {

/// Equally wide parts from the least number to the largest.
inline constexpr int64_t spread_parts = 30;
/// min, max, count, sum, sum of squares; then how many numbers each part has.
inline constexpr int64_t spread_summary = 5, spread_numbers = spread_summary + spread_parts;

/// float64 [spread_numbers] on the tensor's device, without waiting for it. Numbers that are not
/// finite count as 0. At least one number.
at::Tensor spread(const at::Tensor& numbers);

}  // namespace composer

// Numbers that C++ and the Python references make alike.
#pragma once

#include <ATen/ATen.h>

namespace composer {

/// sin(frequency * i + phase) for element i, float32.
inline at::Tensor wave(at::IntArrayRef shape, double phase, double frequency) {
  const int64_t count = c10::multiply_integers(shape);
  return (at::arange(count, at::kDouble) * frequency + phase).sin().to(at::kFloat).reshape(shape);
}

}  // namespace composer

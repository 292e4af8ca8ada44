// The geometry of a max pool after a norm.
#pragma once

#include <cstdint>

#include "cuda/grid.h"

namespace composer::cuda {

struct NormPixel {
  int image, y, x;
};

/// From first to last, both included; empty where last < first.
struct NormRange {
  int first, last;
};

/// Sizes as [height, width]. Images have fewer than 2^31 pixels in all.
struct NormPool {
  int input_size[2], output_size[2];
  int kernel[2], stride[2], padding[2];

  COMPOSER_ANYWHERE NormPixel input(int64_t row) const { return pixel(row, input_size); }
  COMPOSER_ANYWHERE NormPixel output(int64_t row) const { return pixel(row, output_size); }
  COMPOSER_ANYWHERE int64_t input_row(const NormPixel& at) const { return row(at, input_size); }
  COMPOSER_ANYWHERE int64_t output_row(const NormPixel& at) const { return row(at, output_size); }
  COMPOSER_ANYWHERE bool is_inside(const NormPixel& at) const {
    return at.y >= 0 && at.y < input_size[0] && at.x >= 0 && at.x < input_size[1];
  }
  /// The windows that hold the input's coordinate `at`, along the height (axis 0) or width (1).
  COMPOSER_ANYWHERE NormRange windows(int axis, int at) const {
    const int padded = at + padding[axis], before = padded - kernel[axis];
    const int last = padded / stride[axis], end = output_size[axis] - 1;
    return {before < 0 ? 0 : before / stride[axis] + 1, last < end ? last : end};
  }

 private:
  COMPOSER_ANYWHERE static NormPixel pixel(int64_t row, const int (&size)[2]) {
    const int at = static_cast<int>(row), line = at / size[1];
    return {line / size[0], line % size[0], at % size[1]};
  }
  COMPOSER_ANYWHERE static int64_t row(const NormPixel& at, const int (&size)[2]) {
    return (static_cast<int64_t>(at.image) * size[0] + at.y) * size[1] + at.x;
  }
};

}  // namespace composer::cuda

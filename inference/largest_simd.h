// The largest values of windows.
#pragma once

#include <cstdint>

namespace composer {

/// Pixels of `channels` values: so many rows and columns of them, their beginnings so many values
/// apart. Where there are none, 0 or -infinity is the largest.
template <class T>
struct PixelWindow {
  const T* first;
  int64_t rows, row_stride;
  int64_t columns, column_stride;
  int64_t channels;
};

/// largest[c]: of the channel's values in the window.
void largest_values(const PixelWindow<uint8_t>& window, uint8_t* largest);
/// A NaN is the largest.
void largest_values(const PixelWindow<float>& window, float* largest);

}  // namespace composer

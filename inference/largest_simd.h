// The largest values of pooling windows.
#pragma once

#include <cstdint>

namespace composer {

/// A window of pixels of `channels` values; the strides are in values. The largest value of an
/// empty window is 0 or -infinity.
template <class T>
struct PixelWindow {
  const T* first;
  int64_t rows, row_stride;
  int64_t columns, column_stride;
  int64_t channels;
};

/// largest[c]: the largest value of channel c in the window.
void largest_values(const PixelWindow<uint8_t>& window, uint8_t* largest);
/// A NaN is the largest.
void largest_values(const PixelWindow<float>& window, float* largest);

}  // namespace composer

// The largest bytes of windows.
#pragma once

#include <cstdint>

namespace composer {

/// Pixels of `channels` bytes: so many rows and columns of them, their beginnings so many bytes
/// apart.
struct ByteWindow {
  const uint8_t* first;
  int64_t rows, row_stride;
  int64_t columns, column_stride;
  int64_t channels;
};

/// largest[c]: of the channel's bytes in the window; 0 where it is empty.
void largest_bytes(const ByteWindow& window, uint8_t* largest);

}  // namespace composer

// The pixels and weights of vector kernels along the rows. Each group of `lanes` output values
// reads one window of bytes of the row, and an index maps the window's bytes to lanes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

#include "data/pixels/resize_axis.h"

namespace composer {

/// Memory for vector instructions is aligned to cache lines, so that a load of a whole line touches
/// one line.
template <class T>
struct LineAllocator {
  using value_type = T;
  static constexpr std::align_val_t kLine{64};

  LineAllocator() = default;
  template <class U>
  LineAllocator(const LineAllocator<U>&) {}

  T* allocate(size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), kLine)); }
  void deallocate(T* memory, size_t) { ::operator delete(memory, kLine); }
  bool operator==(const LineAllocator&) const { return true; }
};

template <class T>
using AlignedVector = std::vector<T, LineAllocator<T>>;

/// The bytes that a lane takes at a time: its value at one, two or four taps.
enum class LaneBytes {
  one,   ///< as 32 bits
  two,   ///< as 16 bits each
  four,  ///< as 8 bits each
};

/// Output values are in the order of writing: pixel by pixel, mirrored when flipped.
struct Lanes {
  int64_t values = 0;  ///< rounded up to a multiple of 64; the surplus reads the last value's bytes
  int64_t steps = 0;   ///< steps of 1, 2 or 4 taps
  int64_t step_bytes = 0;           ///< distance of a window from one step to the next
  int64_t bytes_read = 0;           ///< bytes that are read from the beginning of a row
  std::vector<int32_t> base;        ///< [windows]: offset of each window
  AlignedVector<uint32_t> index;    ///< [values]: four byte positions; 0x80 for a zero
  AlignedVector<uint32_t> weights;  ///< [steps][levels][values]
  std::vector<uint32_t> by_pixel;   ///< scratch of fill_weights

  /// False when a window of window_bytes bytes does not hold all bytes of its lanes.
  bool make(const ResizeAxis& axis, int64_t channels, bool flip, LaneBytes bytes, int64_t lanes,
            int64_t window_bytes);

  /// pack(i, by_pixel) gives the i-th of steps * levels rows of weights: a number for each output
  /// pixel, which is repeated for its channels, mirrored when flipped; the surplus gets 0.
  template <class Pack>
  void fill_weights(const ResizeAxis& axis, int64_t channels, bool flip, int64_t levels,
                    Pack pack) {
    by_pixel.resize(static_cast<size_t>(axis.outputs));
    weights.resize(static_cast<size_t>(steps * levels * values));
    uint32_t* to = weights.data();
    for (int64_t i = 0; i < steps * levels; ++i, to += values) {
      pack(i, by_pixel.data());
      spread(channels, flip, to);
    }
  }

 private:
  void spread(int64_t channels, bool flip, uint32_t* by_value) const;
};

/// Weights of four taps (4 * step ...) as signed bytes: level 0, 1, 2 count 1, 256, 65536.
void pack_quads(const ResizeAxis& axis, int64_t step, int level, uint32_t* by_position);

/// Weights of two taps (2 * step ...) as 16 bits: bits [shift, shift + width) of each.
void pack_pairs(const ResizeAxis& axis, int64_t step, int shift, int width, uint32_t* by_position);

}  // namespace composer

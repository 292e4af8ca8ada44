#include "data/pixels/resize_lanes.h"

#include <algorithm>
#include <iterator>

#include "base/simd.h"

namespace composer {
namespace {

template <int kChannels, int kStep>
void repeat(const uint32_t* from, int64_t pixels, bool flip, uint32_t scale, uint32_t* to) {
  const int64_t step = flip ? -1 : 1;
  const uint32_t* pixel = flip ? from + pixels - 1 : from;
  for (int64_t x = 0; x < pixels; ++x, pixel += step, to += kChannels)
    for (int c = 0; c < kChannels; ++c) to[c] = *pixel * scale + static_cast<uint32_t>(c * kStep);
}

COMPOSER_CLONES
uint32_t to_index(uint32_t base, uint32_t multiplier, uint32_t pattern, int64_t n,
                  uint32_t* values) {
  uint32_t most = 0;
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t relative = values[i] - base;
    most = std::max(most, relative);
    values[i] = relative * multiplier + pattern;
  }
  return most;
}

COMPOSER_CLONES
void add_quad_digit(const int32_t* weights, int level, int tap, int64_t n, uint32_t* out) {
  // Balanced digits: a lower digit that rounds up is compensated by the next one.
  const int32_t carry = level == 0 ? 0 : level == 1 ? 0x80 : 0x8080;
  const int shift = 8 * level, to = 8 * tap;
  for (int64_t i = 0; i < n; ++i)
    out[i] |= (static_cast<uint32_t>((weights[i] + carry) >> shift) & 0xFF) << to;
}

COMPOSER_CLONES
void add_pair_digit(const int32_t* weights, int shift, uint32_t mask, int to, int64_t n,
                    uint32_t* out) {
  for (int64_t i = 0; i < n; ++i)
    out[i] |= (static_cast<uint32_t>(weights[i] >> shift) & mask) << to;
}

}  // namespace

bool Lanes::make(const ResizeAxis& axis, int64_t channels, bool flip, LaneBytes bytes,
                 int64_t lanes, int64_t window_bytes) {
  const int64_t taps = bytes == LaneBytes::one ? 1 : bytes == LaneBytes::two ? 2 : 4;
  const auto c = static_cast<uint32_t>(channels);
  const uint32_t multiplier = taps == 1 ? 1 : taps == 2 ? 0x10001 : 0x1010101;
  const uint32_t pattern = taps == 1   ? 0x80808000
                           : taps == 2 ? 0x80008000 | c << 16
                                       : c << 8 | 2 * c << 16 | 3 * c << 24;
  const int64_t used = axis.outputs * channels;
  values = (used + 63) / 64 * 64;
  steps = (axis.taps + taps - 1) / taps;
  step_bytes = taps * channels;
  index.resize(static_cast<size_t>(values)), base.resize(static_cast<size_t>(values / lanes));
  const auto* first = reinterpret_cast<const uint32_t*>(axis.first.data());
  (channels == 3 ? repeat<3, 1> : repeat<1, 1>)(first, axis.outputs, flip, c, index.data());
  std::fill(index.begin() + used, index.end(), index[static_cast<size_t>(used - 1)]);

  const auto pixel = [&](int64_t value) {
    const int64_t x = std::min(value, used - 1) / channels;
    return axis.first[static_cast<size_t>(flip ? axis.outputs - 1 - x : x)];
  };
  int64_t most = 0, furthest = 0;
  for (int64_t w = 0; w < values / lanes; ++w) {
    const auto start =
        static_cast<int32_t>(channels * std::min(pixel(w * lanes), pixel(w * lanes + lanes - 1)));
    base[static_cast<size_t>(w)] = start;
    furthest = std::max<int64_t>(furthest, start);
    most = std::max<int64_t>(most, to_index(static_cast<uint32_t>(start), multiplier, pattern,
                                            lanes, index.data() + w * lanes));
  }
  bytes_read = furthest + (steps - 1) * step_bytes + window_bytes;
  return most + (taps - 1) * channels < window_bytes;
}

void Lanes::spread(int64_t channels, bool flip, uint32_t* by_value) const {
  const int64_t pixels = std::ssize(by_pixel);
  (channels == 3 ? repeat<3, 0> : repeat<1, 0>)(by_pixel.data(), pixels, flip, 1, by_value);
  std::fill(by_value + pixels * channels, by_value + values, 0);
}

void pack_quads(const ResizeAxis& axis, int64_t step, int level, uint32_t* by_position) {
  const int64_t n = axis.outputs;
  std::fill_n(by_position, n, 0);
  for (int64_t k = step * 4; k < std::min(axis.taps, step * 4 + 4); ++k)
    add_quad_digit(axis.fixed.data() + k * n, level, static_cast<int>(k % 4), n, by_position);
}

void pack_pairs(const ResizeAxis& axis, int64_t step, int shift, int width, uint32_t* by_position) {
  const int64_t n = axis.outputs;
  std::fill_n(by_position, n, 0);
  for (int64_t k = step * 2; k < std::min(axis.taps, step * 2 + 2); ++k) {
    add_pair_digit(axis.fixed.data() + k * n, shift, (1U << width) - 1,
                   static_cast<int>(k % 2) * 16, n, by_position);
  }
}

}  // namespace composer

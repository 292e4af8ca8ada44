#include "algorithms/augmentation/byte_ops.h"

#include "algorithms/augmentation/byte_ops_simd.h"
#include "base/simd.h"

namespace composer::bytes {
namespace {

int grey(const uint8_t* pixel) {
  return static_cast<int>(0.2989f * static_cast<float>(pixel[0]) +
                          0.587f * static_cast<float>(pixel[1]) +
                          0.114f * static_cast<float>(pixel[2]));
}

template <class T>
void blend_any(const Blend& by, const T* others, uint8_t* values, int64_t n) {
  for (int64_t i = blend_first(by, others, values, n); i < n; ++i)
    values[i] = truncated(by.factor * static_cast<float>(values[i]) +
                          by.rest * static_cast<float>(others[i]));
}

}  // namespace

COMPOSER_CLONES void invert(uint8_t first, uint8_t* values, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    values[i] = values[i] >= first ? static_cast<uint8_t>(255 - values[i]) : values[i];
}

COMPOSER_CLONES void keep_bits(uint8_t mask, uint8_t* values, int64_t n) {
  for (int64_t i = 0; i < n; ++i) values[i] &= mask;
}

void map(const Tables& tables, uint8_t* values, int64_t n) {
  for (; n >= 3; n -= 3, values += 3)
    for (size_t i = 0; i < 3; ++i) values[i] = tables[i][values[i]];
  for (size_t i = 0; i < static_cast<size_t>(n); ++i) values[i] = tables[i][values[i]];
}

void stretch(const Stretch& by, uint8_t* values, int64_t n) {
  const int64_t done = stretch_first(by, values, n);
  if (done == n) return;
  Tables tables;
  for (size_t i = 0; i < 3; ++i)
    for (size_t v = 0; v < 256; ++v)
      tables[i][v] = truncated((static_cast<float>(v) - by.least[i]) * by.factor[i] + by.added);
  map(tables, values + done, n - done);
}

void blend(const Blend& by, const uint8_t* others, uint8_t* values, int64_t n) {
  blend_any(by, others, values, n);
}

void blend(const Blend& by, const float* others, uint8_t* values, int64_t n) {
  blend_any(by, others, values, n);
}

COMPOSER_CLONES void add(float weight, const uint8_t* values, float* sums, int64_t n) {
  for (int64_t i = 0; i < n; ++i) sums[i] += weight * static_cast<float>(values[i]);
}

void blend_greys(const Blend& by, uint8_t* pixels, int64_t n) {
  constexpr int64_t block = 128;
  uint8_t greys[3 * block];
  for (int64_t start = blend_first_greys(by, pixels, n); start < n; start += block) {
    uint8_t* const first = pixels + 3 * start;
    const int64_t bytes = 3 * std::min(block, n - start);
    for (int64_t i = 0; i < bytes; i += 3)
      greys[i] = greys[i + 1] = greys[i + 2] = static_cast<uint8_t>(grey(first + i));
    blend(by, greys, first, bytes);
  }
}

int64_t sum_of_greys(const uint8_t* pixels, int64_t n) {
  int64_t sum = 0;
  for (int64_t i = sum_first_greys(pixels, n, sum); i < n; ++i) sum += grey(pixels + 3 * i);
  return sum;
}

COMPOSER_CLONES int64_t sum_of(const uint8_t* values, int64_t n) {
  int64_t sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += values[i];
  return sum;
}

COMPOSER_CLONES void smooth(const uint8_t* above, const uint8_t* row, const uint8_t* below,
                            int64_t channels, int64_t n, uint8_t* out) {
  constexpr int64_t block = 512;
  uint16_t columns[block + 6];  // sums; `channels` more at both ends
  for (int64_t start = 0; start < n; start += block) {
    const int64_t length = std::min(n - start, block), first = start - channels;
    for (int64_t i = 0; i < length + 2 * channels; ++i)
      columns[i] = static_cast<uint16_t>(above[first + i] + row[first + i] + below[first + i]);
    for (int64_t i = 0; i < length; ++i) {
      const auto sum = static_cast<uint16_t>(columns[i] + columns[i + channels] +
                                             columns[i + 2 * channels] + 4 * row[start + i]);
      out[start + i] = static_cast<uint8_t>(((sum + 6) * 5042u) >> 16);  // sum / 13, rounded
    }
  }
}

COMPOSER_CLONES Range range_of(const uint8_t* values, int64_t n) {
  constexpr int64_t block = 96;
  uint8_t least[block], greatest[block];
  std::fill_n(least, block, 255), std::fill_n(greatest, block, 0);
  int64_t i = 0;
  for (; i <= n - block; i += block)
    for (int64_t j = 0; j < block; ++j) {
      const uint8_t value = values[i + j], low = least[j], high = greatest[j];
      least[j] = value < low ? value : low;
      greatest[j] = value > high ? value : high;
    }
  Range range{{255, 255, 255}, {0, 0, 0}};
  const auto take = [&](size_t c, uint8_t low, uint8_t high) {
    range.least[c] = std::min(range.least[c], low);
    range.greatest[c] = std::max(range.greatest[c], high);
  };
  for (; i < n; ++i) take(static_cast<size_t>(i % 3), values[i], values[i]);
  for (size_t j = 0; j < block; ++j) take(j % 3, least[j], greatest[j]);
  return range;
}

Counts counts_of(const uint8_t* values, int64_t n) {
  Counts counts{};
  for (; n >= 3; n -= 3, values += 3)
    for (size_t i = 0; i < 3; ++i) ++counts[i][values[i]];
  for (size_t i = 0; i < static_cast<size_t>(n); ++i) ++counts[i][values[i]];
  return counts;
}

}  // namespace composer::bytes

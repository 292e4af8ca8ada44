// Operations on bytes that image operations consist of, in plain code and in vector instructions
// with the same results.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace composer::bytes {

/// The value clamped to [0, 255], without its fraction.
inline uint8_t truncated(float value) {
  return static_cast<uint8_t>(static_cast<int>(std::min(std::max(value, 0.0f), 255.0f)));
}

/// A lookup table per channel; images of one channel use the same table three times.
using Table = std::array<uint8_t, 256>;
using Tables = std::array<Table, 3>;

/// (value - least) * factor + added, in float, truncated; per channel as in Tables.
struct Stretch {
  std::array<float, 3> least{}, factor{};
  float added = 0;
};

/// factor * value + rest * other, in float, truncated.
struct Blend {
  float factor = 1, rest = 0;
};

/// value -> 255 - value, if it is at least `first`.
void invert(uint8_t first, uint8_t* values, int64_t n);

void keep_bits(uint8_t mask, uint8_t* values, int64_t n);

void map(const Tables& tables, uint8_t* values, int64_t n);

void stretch(const Stretch& by, uint8_t* values, int64_t n);

void blend(const Blend& by, const uint8_t* others, uint8_t* values, int64_t n);
void blend(const Blend& by, const float* others, uint8_t* values, int64_t n);

/// sums += weight * values
void add(float weight, const uint8_t* values, float* sums, int64_t n);

/// Blends n pixels of three channels with their greys.
void blend_greys(const Blend& by, uint8_t* pixels, int64_t n);

/// The sum of the grey levels of n pixels of three channels.
int64_t sum_of_greys(const uint8_t* pixels, int64_t n);

int64_t sum_of(const uint8_t* values, int64_t n);

/// n rounded means of 3x3 values of a channel; the middle value, at `row`, counts five times.
void smooth(const uint8_t* above, const uint8_t* row, const uint8_t* below, int64_t channels,
            int64_t n, uint8_t* out);

/// The least and greatest of n values, per channel as in Tables.
struct Range {
  std::array<uint8_t, 3> least, greatest;
};
Range range_of(const uint8_t* values, int64_t n);

/// The number of occurrences of each value among n values, per channel as in Tables.
using Counts = std::array<std::array<uint32_t, 256>, 3>;
Counts counts_of(const uint8_t* values, int64_t n);

}  // namespace composer::bytes

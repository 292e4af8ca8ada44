#include "base/loading/pixel_normalizer.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/loading/normalize_simd.h"

namespace composer {
namespace {

constexpr size_t kRepeats = 256;

template <class T>
void look_up(const std::vector<T>& table, const uint8_t* in, int64_t values, T* out) {
  const size_t channels = table.size() / 256;
  size_t channel = 0;
  for (int64_t i = 0; i < values; ++i) {
    out[i] = table[in[i] * channels + channel];
    if (++channel == channels) channel = 0;
  }
}

/// The bits of the float16 nearest to the value (halves to even).
uint16_t half_bits(double value) {
  const auto sign = static_cast<uint16_t>(std::signbit(value) ? 0x8000 : 0);
  value = std::abs(value);
  if (value == 0) return sign;
  if (value >= 65520) return static_cast<uint16_t>(sign | 0x7c00);
  int exponent = 0;
  std::frexp(value, &exponent);
  const int last = std::max(exponent - 11, -24);  // exponent of the last binary digit
  const auto digits = static_cast<int>(std::nearbyint(std::ldexp(value, -last)));
  return static_cast<uint16_t>(sign | ((last + 24) * 1024 + digits));
}

}  // namespace

PixelNormalizer::PixelNormalizer(std::span<const double> mean, std::span<const double> std)
    : scale_(mean.size() * kRepeats), shift_(scale_.size()) {
  const size_t channels = mean.size();
  for (size_t c = 0; c < channels; ++c) {
    scale_[c] = static_cast<float>(1 / std[c]);
    shift_[c] = static_cast<float>(-mean[c] / std[c]);
  }
  for (size_t i = channels; i < scale_.size(); ++i) {
    scale_[i] = scale_[i - channels];
    shift_[i] = shift_[i - channels];
  }
  for (int byte = 0; byte < 256; ++byte)
    for (size_t c = 0; c < channels; ++c) halves_.push_back(half_bits((byte - mean[c]) / std[c]));
}

PixelNormalizer::PixelNormalizer(std::span<const float> table)
    : floats_(table.begin(), table.end()) {
  for (const float value : table) {
    halves_.push_back(half_bits(value));
    const auto bits = std::bit_cast<uint32_t>(value);
    brain_floats_.push_back(static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16));
  }
}

void PixelNormalizer::run(const uint8_t* in, int64_t values, float* out) const {
  if (!floats_.empty()) return look_up(floats_, in, values, out);
  const auto period = static_cast<int64_t>(scale_.size());
  for (int64_t i = 0; i < values; i += period) {
    scale_to_float(in + i, std::min(period, values - i), scale_.data(), shift_.data(), out + i);
  }
}

void PixelNormalizer::run_bf16(const uint8_t* in, int64_t values, uint16_t* out) const {
  if (!floats_.empty()) return look_up(brain_floats_, in, values, out);
  const auto period = static_cast<int64_t>(scale_.size());
  for (int64_t i = 0; i < values; i += period) {
    scale_to_bf16(in + i, std::min(period, values - i), scale_.data(), shift_.data(), out + i);
  }
}

void PixelNormalizer::run_f16(const uint8_t* in, int64_t values, uint16_t* out) const {
  look_up(halves_, in, values, out);
}

}  // namespace composer

#include "data/pixels/normalize_pixels.h"

#include <algorithm>
#include <bit>

#include "composer/simd.h"

// Compiled without fused multiply-add (data/CMakeLists.txt): equal to composer/normalize.cpp.
namespace composer {
namespace {

constexpr size_t kRepeats = 256;

COMPOSER_CLONES
void to_float(const uint8_t* in, int64_t n, const float* scale, const float* shift, float* out) {
  for (int64_t i = 0; i < n; ++i) {
    out[i] = static_cast<float>(static_cast<int32_t>(in[i])) * scale[i] + shift[i];
  }
}

COMPOSER_CLONES
void to_bf16(const uint8_t* in, int64_t n, const float* scale, const float* shift, uint16_t* out) {
  for (int64_t i = 0; i < n; ++i) {
    const float value = static_cast<float>(static_cast<int32_t>(in[i])) * scale[i] + shift[i];
    const auto bits = std::bit_cast<uint32_t>(value);
    out[i] = static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
  }
}

}  // namespace

PixelNormalizer::PixelNormalizer(std::span<const double> mean, std::span<const double> std)
    : scale_(mean.size() * kRepeats), shift_(scale_.size()) {
  for (size_t i = 0; i < scale_.size(); ++i) {
    const size_t c = i % mean.size();
    scale_[i] = static_cast<float>(1 / std[c]);
    shift_[i] = static_cast<float>(-mean[c] / std[c]);
  }
}

void PixelNormalizer::run(const uint8_t* in, int64_t values, float* out) const {
  const auto period = static_cast<int64_t>(scale_.size());
  for (int64_t i = 0; i < values; i += period) {
    to_float(in + i, std::min(period, values - i), scale_.data(), shift_.data(), out + i);
  }
}

void PixelNormalizer::run_bf16(const uint8_t* in, int64_t values, uint16_t* out) const {
  const auto period = static_cast<int64_t>(scale_.size());
  for (int64_t i = 0; i < values; i += period) {
    to_bf16(in + i, std::min(period, values - i), scale_.data(), shift_.data(), out + i);
  }
}

}  // namespace composer

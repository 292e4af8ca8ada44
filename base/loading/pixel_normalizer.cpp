#include "base/loading/pixel_normalizer.h"

#include <algorithm>

#include "base/loading/normalize_simd.h"

namespace composer {
namespace {

constexpr size_t kRepeats = 256;

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
    scale_to_float(in + i, std::min(period, values - i), scale_.data(), shift_.data(), out + i);
  }
}

void PixelNormalizer::run_bf16(const uint8_t* in, int64_t values, uint16_t* out) const {
  const auto period = static_cast<int64_t>(scale_.size());
  for (int64_t i = 0; i < values; i += period) {
    scale_to_bf16(in + i, std::min(period, values - i), scale_.data(), shift_.data(), out + i);
  }
}

}  // namespace composer

#include "base/loading/pixel_normalizer.h"

#include <algorithm>

#include "base/loading/normalize_simd.h"

namespace composer {
namespace {

constexpr size_t kRepeats = 256;

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

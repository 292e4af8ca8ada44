// Image bytes to normalised numbers on the CPU. The loader's threads use it for single images,
// nn/network/normalize.h for batches.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace composer {

/// Computes (x - mean) / std for each channel as x * scale + shift in float32. x is a byte, 0 to
/// 255. The product is rounded before the sum.
class PixelNormalizer {
 public:
  /// One mean and one standard deviation, which is not 0, for each channel.
  PixelNormalizer(std::span<const double> mean, std::span<const double> std);

  /// Reads `values` bytes: whole pixels, channels interleaved.
  void run(const uint8_t* in, int64_t values, float* out) const;

  /// The same, rounded to bfloat16 (halves to even).
  void run_bf16(const uint8_t* in, int64_t values, uint16_t* out) const;

  /// float32(1 / std) and float32(-mean / std) for each channel, the sequence repeated.
  const std::vector<float>& scale() const { return scale_; }
  const std::vector<float>& shift() const { return shift_; }

 private:
  std::vector<float> scale_, shift_;  ///< repeated, so that no inner loop counts channels
};

}  // namespace composer

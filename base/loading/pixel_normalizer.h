// Bytes of an image -> normalised numbers, on the CPU: on the loader's threads, or of a whole batch
// in nn/network/normalize.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace composer {

/// (x - mean) / std for each channel, in units of the bytes 0..255: x * scale + shift in float32,
/// the product rounded before the sum.
class PixelNormalizer {
 public:
  /// One number a channel; as many means as standard deviations, which are not 0.
  PixelNormalizer(std::span<const double> mean, std::span<const double> std);

  /// `values` bytes of whole pixels, channels interleaved.
  void run(const uint8_t* in, int64_t values, float* out) const;

  /// The same, rounded to bfloat16 (halves to even).
  void run_bf16(const uint8_t* in, int64_t values, uint16_t* out) const;

  /// float32(1 / std) and float32(-mean / std) of each channel, repeated.
  const std::vector<float>& scale() const { return scale_; }
  const std::vector<float>& shift() const { return shift_; }

 private:
  std::vector<float> scale_, shift_;  ///< repeated, so that no inner loop counts channels
};

}  // namespace composer

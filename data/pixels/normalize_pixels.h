// Bytes of an image -> normalised numbers on the loader's threads, for training without the pass
// on the device.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace composer {

/// (x - mean) / std for each channel, in units of the bytes 0..255: the same float32 as
/// nn/network/normalize.h gives.
class PixelNormalizer {
 public:
  /// One number a channel; as many means as standard deviations, which are not 0.
  PixelNormalizer(std::span<const double> mean, std::span<const double> std);

  /// `values` bytes of whole pixels, channels interleaved.
  void run(const uint8_t* in, int64_t values, float* out) const;

  /// The same, rounded to bfloat16 (halves to even).
  void run_bf16(const uint8_t* in, int64_t values, uint16_t* out) const;

 private:
  std::vector<float> scale_, shift_;  ///< repeated, so that no inner loop counts channels
};

}  // namespace composer

// Normalizes the pixels of images on the CPU: single images on the loader's threads, batches in
// nn/network/normalize.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace composer {

/// Computes (x - mean) / std for each channel as x * scale + shift in float32. x is a byte, 0 to
/// 255. The product is rounded before the sum. Or looks up each x in a table.
class PixelNormalizer {
 public:
  /// One mean and one standard deviation for each channel. No standard deviation is 0.
  PixelNormalizer(std::span<const double> mean, std::span<const double> std);
  /// table: [256][C], the number of each byte and channel.
  explicit PixelNormalizer(std::span<const float> table);

  /// Reads `values` bytes: whole pixels, channels interleaved.
  void run(const uint8_t* in, int64_t values, float* out) const;

  /// run() with the results rounded to bfloat16 (halves to even).
  void run_bf16(const uint8_t* in, int64_t values, uint16_t* out) const;

  /// (x - mean) / std in float64, rounded once to float16 (halves to even), as FFCV's
  /// NormalizeImage gives it.
  void run_f16(const uint8_t* in, int64_t values, uint16_t* out) const;

  /// float32(1 / std) and float32(-mean / std) for each channel, the sequence repeated.
  const std::vector<float>& scale() const { return scale_; }
  const std::vector<float>& shift() const { return shift_; }

 private:
  std::vector<float> scale_, shift_;  ///< repeated, so that no inner loop counts channels
  // Of each byte and channel, [byte][channel]; those of float32 and bfloat16 with a table alone.
  std::vector<uint16_t> halves_, brain_floats_;
  std::vector<float> floats_;
};

}  // namespace composer

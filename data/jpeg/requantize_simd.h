// Converts a block's quantised DCT coefficients to another quality, or to half the resolution.
#pragma once

#include <array>
#include <cstdint>

namespace composer {

/// A factor for each coefficient, in natural order.
using JpegFactors = std::array<float, 64>;

/// The matrices that turn the coefficients of 2 x 2 blocks into one block of their averaged pixels.
struct JpegHalving {
  std::array<float, 8 * 16> matrix;      ///< [8, 16]
  std::array<float, 16 * 8> transposed;  ///< [16, 8]
};
const JpegHalving& jpeg_halving();

/// A Huffman code, in its lower bits.
struct JpegCode {
  uint16_t code = 0;
  int16_t length = 0;
};
using JpegCodes = std::array<JpegCode, 256>;  ///< indexed by symbol

/// Bits that are not yet written, at the bottom of `bits`, and their destination.
struct JpegBits {
  uint64_t bits = 0;
  int count = 0;  ///< at most 64
  uint8_t* to = nullptr;
};

/// scale and halve round, clamp to +-1023, write zig-zag order and return a bit for each
/// coefficient that is not 0.
struct RequantizeKernels {
  /// block: in natural order.
  uint64_t (*scale)(const int16_t* block, const JpegFactors& factors, int16_t* out) = nullptr;
  /// blocks: above left and right, below left and right, multiplied with `source` first.
  uint64_t (*halve)(const std::array<const int16_t*, 4>& blocks, const JpegFactors& source,
                    const JpegFactors& factors, int16_t* out) = nullptr;
  /// Writes the codes of a block, with stuffing. difference: DC coefficient minus predictor. block:
  /// in zig-zag order. present: a bit for each coefficient that is not 0.
  void (*encode)(JpegBits& bits, const JpegCodes& dc, const JpegCodes& ac, int32_t difference,
                 const int16_t* block, uint64_t present) = nullptr;
};

const RequantizeKernels& requantize_kernels();

}  // namespace composer

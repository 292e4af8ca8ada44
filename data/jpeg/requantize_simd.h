// Quantised DCT coefficients of a block -> those of another quality, or of half the resolution.
#pragma once

#include <array>
#include <cstdint>

namespace composer {

/// A factor for each coefficient, in natural order.
using JpegFactors = std::array<float, 64>;

/// What makes the coefficients of one block of those of 2 x 2, by their pixels' averages.
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
using JpegCodes = std::array<JpegCode, 256>;  ///< by symbol

/// Bits that are yet to be written, at the bottom, and where to.
struct JpegBits {
  uint64_t bits = 0;
  int count = 0;  ///< at most 64
  uint8_t* to = nullptr;
};

/// Both of the first round, limit to +-1023, put into zig-zag order, and return which are not 0, a
/// bit each.
struct RequantizeKernels {
  /// block: in natural order.
  uint64_t (*scale)(const int16_t* block, const JpegFactors& factors, int16_t* out) = nullptr;
  /// blocks: above left and right, below left and right, multiplied with `source` first.
  uint64_t (*halve)(const std::array<const int16_t*, 4>& blocks, const JpegFactors& source,
                    const JpegFactors& factors, int16_t* out) = nullptr;
  /// The codes of a block, stuffing included. difference: of its DC coefficient from the predictor.
  /// block: in zig-zag order. present: which of its coefficients are not 0.
  void (*encode)(JpegBits& bits, const JpegCodes& dc, const JpegCodes& ac, int32_t difference,
                 const int16_t* block, uint64_t present) = nullptr;
};

const RequantizeKernels& requantize_kernels();

}  // namespace composer

// The parts of a 3 x 3 convolution of 8-bit codes by Winograd's F(4 x 4, 3 x 3) in integers, by
// AVX-512's dot products of 16 bits (VNNI): for each pair of channels a tile of 4 x 4 output pixels
// takes 36 products instead of 144, each of which costs two of 8 bits.
//
// Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016, with the points
// 0, +-1, +-2 and infinity. The sums are exact: pixels become B' d B, of 15 bits, and weights
// G g G', of 13, where G's rows are 24, -6, -6, 24, 24 and 6 times the paper's. The inverse gives
// 9 * 2^p times each sum, p <= 6, modulo 2^32: an odd number divides without a remainder there, and
// a sum of at most 25 bits is left when 2^p is shifted away.
//
// int8_winograd.cpp is compiled with the instructions of int8_vnni.cpp.
#pragma once

#include <cstdint>

#include "inference/int8_amx.h"
#include "inference/winograd_tiles.h"

namespace composer::int8_winograd {

inline constexpr int64_t tile_size = 4, value_count = 36;
inline constexpr int64_t rows = 14;  ///< most tiles of a part
/// Input channels that lie side by side in Factors::values; the last chunk is filled with zeros.
inline constexpr int64_t chunk = 32;
/// Output channels that are computed together.
inline constexpr int64_t panel = 2 * int8_amx::channels;
/// Sums must have a smaller absolute value.
inline constexpr int64_t most_sum = 1 << 25;

struct Input {
  const uint8_t* from;     ///< [N, height, width, channels]
  const uint8_t* padding;  ///< the codes of a pixel around the images
  int64_t channels;
};

struct Factors {
  const int16_t* values;   ///< [parts][value_count][chunks][rows][chunk]
  const int16_t* weights;  ///< [value_count][chunks][chunk / 2][panel][2]
  int64_t chunks;
  /// Bytes from `weights` on that are prefetched; 0 for weights that are in the cache already.
  int64_t prefetched;
};

/// Computes the values of parts [begin, end) of the block. to: the Factors::values of all parts.
void transform_input(const WinogradBlock& block, const Input& input, int64_t begin, int64_t end,
                     int16_t* to);
/// sums: [value_count][count][panel], at an address that is a multiple of 64.
void multiply(const WinogradBlock& block, const Factors& factors, int32_t* sums);
/// Writes the codes of output channels [panel * index, panel * (index + 1)).
void transform_output(const WinogradBlock& block, const int32_t* sums,
                      const int8_amx::Requantization& layer, int64_t index);

}  // namespace composer::int8_winograd

// Products of 8-bit codes and weights, by AMX tiles or by AVX-512's dot products (VNNI), and the
// requantization of their sums. int8_amx.cpp, int8_vnni.cpp and int8_winograd.cpp are compiled for
// processors with these instructions. They include no header with inline functions, because the
// linker could keep their copy of such a function for the whole program.
#pragma once

#include <cstdint>

namespace composer::int8_amx {

inline constexpr int pixels = 16;                    ///< most pixels of a tile
inline constexpr int channels = 16;                  ///< output channels of a block
inline constexpr int values = 64;                    ///< input values of a pixel in a step
inline constexpr int64_t bytes = channels * values;  ///< bytes of a block's weights in a step
/// Most pixels of a tile for multiply_by_vnni(): the registers hold the sums of two blocks, and the
/// sums of the previous tile.
inline constexpr int vnni_rows = 7;

/// Input pixels at equal distances, Product::pixel_stride.
struct PixelTile {
  const uint8_t* first;
  int32_t indices[pixels];  ///< index of each pixel's output; negative: it has none
  bool follows;             ///< true if the indices are consecutive
};

/// How a layer's integer sums become its outputs: (start + sum) * scale + offset, which fits in 32
/// bits. start, scale and offset have an entry per output channel, up to the end of the last block.
struct Requantization {
  const int32_t* start;
  const float *scale, *offset;

  int64_t out_channels;
  const uint8_t* addend;  ///< [output pixels][out_channels], or null; may be `codes`
  float addend_scale;
  bool relu;
  int16_t zero_point;  ///< zero point of the output's codes
  uint8_t most_code;
  uint8_t* codes;  ///< [output pixels][out_channels]: zero_point + the nearest integer, ties to
                   ///< even; or null
  float* numbers;  ///< [output pixels][out_channels]: the unrounded outputs, where codes is null
};

/// A layer's product for some tiles and blocks of output channels: the sums over all steps, and
/// their requantization.
struct Product : Requantization {
  const PixelTile* tiles;
  int64_t tile_count;
  int rows;              ///< pixels of each tile
  int64_t pixel_stride;  ///< in bytes

  const int64_t* steps;  ///< offset in bytes of each step's 64 values from a pixel's first value
  const int8_t* step_quads;  ///< groups of 4 values in each step; the weights of later groups are 0
  int64_t step_count;
  const int8_t* weights;  ///< [blocks][steps][16 groups][16 channels][4 values]
  int64_t first_block, end_block;
};

/// Requires tile_instructions() to be amx_bf16.
void multiply_by_amx(const Product& product);
/// The tiles have at most vnni_rows pixels.
void multiply_by_vnni(const Product& product);

}  // namespace composer::int8_amx

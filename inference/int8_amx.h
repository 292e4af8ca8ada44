// Products of 8-bit codes and weights, by AMX tiles or by AVX-512's dot products (VNNI), with what
// follows a convolution. int8_amx.cpp, int8_vnni.cpp and int8_winograd.cpp are compiled for
// processors that have them alone: they include nothing whose functions the linker could take for
// the rest of the program.
#pragma once

#include <cstdint>

namespace composer::int8_amx {

inline constexpr int pixels = 16;                    ///< of a tile, at most
inline constexpr int channels = 16;                  ///< of a block of outputs
inline constexpr int values = 64;                    ///< of a pixel's, in a step
inline constexpr int64_t bytes = channels * values;  ///< of a block's weights in a step
inline constexpr int quads = values / 4;             ///< of 4 values, in a step
/// Rows of a tile for multiply_by_dots(), at most: there are registers for two blocks' sums, and
/// for those of the tile before.
inline constexpr int dot_rows = 7;

/// Pixels that lie one stride apart.
struct PixelTile {
  const uint8_t* first;
  int32_t places[pixels];  ///< of their outputs; negative: has none, as all beyond the tile's rows
  bool follows;            ///< each row's is one more than the row's before it
};

/// What becomes of a layer's sums. By output channel, up to the last block's end:
/// (start + sum) * scale + offset, of less than 32 bits.
struct Requantization {
  const int32_t* start;
  const float *scale, *offset;

  int64_t out_channels;
  const uint8_t* addend;  ///< [places][out_channels], or null; may be `codes`
  float addend_scale;
  bool relu;
  int16_t zero_point;  ///< of the codes
  uint8_t most_code;
  uint8_t*
      codes;  ///< [places][out_channels]: zero_point + the nearest integer, halves to even ones
  float* numbers;  ///< the same as it is, where codes is null
};

/// The sums of all steps, and what becomes of them.
struct Product : Requantization {
  const PixelTile* tiles;
  int64_t tile_count;
  int rows;              ///< pixels of each
  int64_t pixel_stride;  ///< bytes

  const int64_t* steps;      ///< where a pixel's 64 values are, in bytes from its first
  const int8_t* step_quads;  ///< of each, before those whose weights are all 0
  int64_t step_count;
  const int8_t* weights;  ///< [blocks][steps][16 of 4 values][16 channels][4 values]
  int64_t first_block, end_block;
};

/// For threads that may use tiles: tile_instructions() is amx_bf16.
void multiply_by_tiles(const Product& product);
/// Tiles of at most dot_rows.
void multiply_by_dots(const Product& product);

}  // namespace composer::int8_amx

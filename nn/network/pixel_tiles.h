// Products of 16 x 16 blocks of bfloat16 values, summed over pixels in float32, with special
// instructions of some x86 processors. pixel_tiles.cpp is compiled for these processors only: it
// includes nothing whose inline functions the linker could use elsewhere in the program.
#pragma once

#include <cstdint>

namespace composer::tiles {

inline constexpr int channels = 16;               ///< channels of a block
inline constexpr int pixels = 32;                 ///< pixels of a tile
inline constexpr int values = channels * pixels;  ///< values of a tile

enum class Instructions { avx512_bf16, amx_bf16 };

/// Sets up a thread for tile instructions while it lives: 8 tiles of 16 rows of 64 bytes; tiles 0
/// to 5 have `rows` rows.
class Scope {
 public:
  explicit Scope(Instructions instructions, int rows = 16);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  Instructions instructions_;
};

/// Writes the right factor's tiles, of pixels from[i] with `count` channels each: [blocks of
/// channels] [pitch][16 channels][2]. The second dimension counts pairs of pixels 2 i and 2 i + 1,
/// of which the first `pairs` are written. Channels from `count` on are 0.
void interleave(const uint16_t* const* from, int64_t pairs, int64_t count, int64_t pitch,
                uint16_t* to);

/// Writes the left factor's tiles: [blocks of channels][tiles][16 channels][32 pixels].
void transpose(const uint16_t* const* from, int64_t tiles, int64_t count, uint16_t* to);

/// sums[row][column] += left[row] * right[column], over `tiles` tiles each; sums are [16][16].
struct Product {
  static constexpr int most_columns[] = {5, 2};  ///< most columns for one row and for two rows

  const uint16_t* left[2];
  const uint16_t* right[5];
  float* sums[2][5];
  int rows, columns;
  int64_t tiles;
};
void multiply(const Product& product, Instructions instructions);

}  // namespace composer::tiles

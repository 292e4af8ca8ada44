#include "composer/simd.h"
#include "inference/code_tiles.h"

#ifdef COMPOSER_X86

#include <array>
#include <utility>

#include "inference/code_outputs.h"

namespace composer::code_tiles {
namespace {

constexpr int64_t quad_bytes = channels * 4;  ///< of a block's weights of 4 values

/// The outputs of a tile of so many rows, whose sums are in registers.
template <int rows, int columns, bool to_codes, bool adds>
void compute_rows(const Product& product, const Patch& patch, Outputs<to_codes, adds>& outputs) {
  // Of every third row: the two below it are found from it without an addition.
  constexpr int kept = (rows + 2) / 3;
  const int64_t panel = product.step_count * bytes, stride = product.pixel_stride;
  const int8_t* weights = product.weights + patch.block * panel;
  __m512i registers[rows][columns];
#pragma GCC unroll 2
  for (int column = 0; column < columns; ++column) {
    const auto start = _mm512_loadu_si512(product.start + (patch.block + column) * channels);
#pragma GCC unroll 14
    for (int row = 0; row < rows; ++row) registers[row][column] = start;
  }
  const PixelTile& tile = product.tiles[patch.tile];
  for (int64_t step = 0; step < product.step_count; ++step) {
    const uint8_t* at[kept];
#pragma GCC unroll 5
    for (int i = 0; i < kept; ++i) at[i] = tile.first + product.steps[step] + 3 * i * stride;
    const int8_t* const end = weights + product.step_quads[step] * quad_bytes;
    for (const int8_t* quad = weights; quad != end; quad += quad_bytes) {
      __m512i factors[columns];
#pragma GCC unroll 2
      for (int column = 0; column < columns; ++column)
        factors[column] = _mm512_loadu_si512(quad + column * panel);
#pragma GCC unroll 14
      for (int row = 0; row < rows; ++row) {
        int32_t values;
        __builtin_memcpy(&values, at[row / 3] + row % 3 * stride, sizeof(values));
        const __m512i pixel = _mm512_set1_epi32(values);
#pragma GCC unroll 2
        for (int column = 0; column < columns; ++column)
          registers[row][column] =
              _mm512_dpbusd_epi32(registers[row][column], pixel, factors[column]);
      }
#pragma GCC unroll 5
      for (int i = 0; i < kept; ++i) at[i] += 4;
    }
    weights += bytes;
  }
  if constexpr (to_codes && columns == 2)
    if (tile.follows) return outputs.write_following(registers, tile.places[0], patch.block);
  Sums sums;
#pragma GCC unroll 2
  for (int column = 0; column < columns; ++column) {
#pragma GCC unroll 14
    for (int row = 0; row < rows; ++row)
      _mm512_store_si512(sums[column] + row * channels, registers[row][column]);
  }
  outputs.write(patch, sums);
}

template <bool to_codes, bool adds>
using ComputeRows = void (*)(const Product&, const Patch&, Outputs<to_codes, adds>&);

template <int columns, bool to_codes, bool adds, int... less>
constexpr std::array<ComputeRows<to_codes, adds>, dot_rows> by_rows(
    std::integer_sequence<int, less...>) {
  return {&compute_rows<less + 1, columns, to_codes, adds>...};
}

/// What is larger, pixels or weights, is read once.
template <bool to_codes, bool adds>
struct ByDots {
  static void run(const Product& product) {
    constexpr auto rows = std::make_integer_sequence<int, dot_rows>();
    static constexpr std::array<std::array<ComputeRows<to_codes, adds>, dot_rows>, 2> kernels{
        by_rows<1, to_codes, adds>(rows), by_rows<2, to_codes, adds>(rows)};
    Outputs<to_codes, adds> outputs(product);
    Patch patch{.tile = 0, .block = product.first_block, .rows = 1, .columns = 0};
    const auto compute = [&] {
      patch.columns = at_most(product.end_block - patch.block, 2);
      const auto columns = static_cast<size_t>(patch.columns - 1);
      kernels[columns][static_cast<size_t>(product.rows - 1)](product, patch, outputs);
    };
    const int64_t blocks = product.end_block - product.first_block;
    if (blocks * channels > product.tile_count * product.rows) {
      for (; patch.block < product.end_block; patch.block += patch.columns)
        for (patch.tile = 0; patch.tile < product.tile_count; ++patch.tile) compute();
      return;
    }
    for (; patch.tile < product.tile_count; ++patch.tile)
      for (patch.block = product.first_block; patch.block < product.end_block;
           patch.block += patch.columns)
        compute();
  }
};

}  // namespace

void multiply_by_dots(const Product& product) { compute_outputs<ByDots>(product); }

}  // namespace composer::code_tiles

#endif

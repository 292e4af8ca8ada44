#include "base/simd.h"
#include "inference/int8_amx.h"

#ifdef COMPOSER_X86

#include <array>
#include <utility>

#include "inference/int8_outputs.h"

namespace composer::int8_amx {
namespace {

constexpr int64_t quad_bytes = channels * 4;  ///< bytes of a block's weights for 4 values

/// The sums of a tile with some blocks of weights, in registers.
template <int rows, int columns>
class Dots {
 public:
  [[gnu::always_inline]] Dots(const Product& product, const PixelTile& tile, int64_t block)
      : product_(product),
        first_(tile.first),
        panel_(product.step_count * bytes),
        weights_(product.weights + block * panel_) {
#pragma GCC unroll 2
    for (int column = 0; column < columns; ++column) {
      const auto start = _mm512_loadu_si512(product.start + (block + column) * channels);
#pragma GCC unroll 7
      for (int row = 0; row < rows; ++row) sums[row][column] = start;
    }
    begin_step(0);
  }

  /// Adds the next 4 values of the step, which must have some left.
  [[gnu::always_inline]] void add() {
    __m512i factors[columns];
#pragma GCC unroll 2
    for (int column = 0; column < columns; ++column)
      factors[column] = _mm512_loadu_si512(quad_ + column * panel_);
#pragma GCC unroll 7
    for (int row = 0; row < rows; ++row) {
      int32_t values;
      __builtin_memcpy(&values, at_[row / 3] + row % 3 * product_.pixel_stride, sizeof(values));
      const __m512i pixel = _mm512_set1_epi32(values);
#pragma GCC unroll 2
      for (int column = 0; column < columns; ++column)
        sums[row][column] = _mm512_dpbusd_epi32(sums[row][column], pixel, factors[column]);
    }
#pragma GCC unroll 3
    for (int i = 0; i < kept; ++i) at_[i] += 4;
    quad_ += quad_bytes;
  }

  [[gnu::always_inline]] void add_rest() {
    for (int64_t step = 0;;) {
      const int8_t* const end = weights_ + product_.step_quads[step] * quad_bytes;
      while (quad_ != end) add();
      if (++step == product_.step_count) return;
      weights_ += bytes;
      begin_step(step);
    }
  }

  __m512i sums[rows][columns];

 private:
  /// Pointers are kept for every third row; the two rows after it need no pointer of their own.
  static constexpr int kept = (rows + 2) / 3;

  [[gnu::always_inline]] void begin_step(int64_t step) {
    quad_ = weights_;
#pragma GCC unroll 3
    for (int i = 0; i < kept; ++i)
      at_[i] = first_ + product_.steps[step] + 3 * i * product_.pixel_stride;
  }

  const Product& product_;
  const uint8_t* const first_;
  const int64_t panel_;
  const int8_t *weights_, *quad_;
  const uint8_t* at_[kept];
};

/// The outputs of all tiles, of `rows` pixels, for blocks [begin, end), `columns` blocks at a time.
/// The requantization of a tile's sums with two blocks overlaps the products of the next tile.
template <int rows, int columns, bool to_codes, bool adds>
void run_blocks(const Product& product, int64_t begin, int64_t end) {
  using Rows = FollowingRows<rows, adds>;
  const Rounding rounding(product);
  Outputs<to_codes, adds> outputs(product);
  const bool overlap = product.step_quads[0] >= Rows::pairs;
  __m512i before[rows][2];
  int32_t pending = -1;  // index of the first output of `before`; negative: nothing is pending
  int64_t block_before = 0;
  const auto finish = [&](const auto& before_each_pair) __attribute__((always_inline)) {
    if (pending < 0) return;
    const Rows following(product, rounding, pending, block_before);
#pragma GCC unroll 4
    for (int pair = 0; pair < Rows::pairs; ++pair) {
      before_each_pair();
      following.write(before, pair);
    }
    pending = -1;
  };
  const auto nothing = [] {};
  const auto compute = [&](int64_t index, int64_t block) __attribute__((always_inline)) {
    const PixelTile& tile = product.tiles[index];
    if (!overlap) finish(nothing);
    Dots<rows, columns> dots(product, tile, block);
    finish([&]() __attribute__((always_inline)) { dots.add(); });
    dots.add_rest();
    if constexpr (to_codes && columns == 2)
      if (tile.follows) {
        pending = tile.indices[0], block_before = block;
#pragma GCC unroll 7
        for (int row = 0; row < rows; ++row)
          before[row][0] = dots.sums[row][0], before[row][1] = dots.sums[row][1];
        return;
      }
    Sums sums;
#pragma GCC unroll 2
    for (int column = 0; column < columns; ++column) {
#pragma GCC unroll 7
      for (int row = 0; row < rows; ++row)
        _mm512_store_si512(sums[column] + row * channels, dots.sums[row][column]);
    }
    outputs.write({.tile = index, .block = block, .rows = 1, .columns = columns}, sums);
  };
  // The larger of pixels and weights is read once.
  if ((end - begin) * channels > product.tile_count * product.rows)
    for (int64_t block = begin; block < end; block += columns)
      for (int64_t tile = 0; tile < product.tile_count; ++tile) compute(tile, block);
  else
    for (int64_t tile = 0; tile < product.tile_count; ++tile)
      for (int64_t block = begin; block < end; block += columns) compute(tile, block);
  finish(nothing);
}

using RunBlocks = void (*)(const Product&, int64_t, int64_t);

template <int columns, bool to_codes, bool adds, int... less>
constexpr std::array<RunBlocks, vnni_rows> by_rows(std::integer_sequence<int, less...>) {
  return {&run_blocks<less + 1, columns, to_codes, adds>...};
}

template <bool to_codes, bool adds>
struct ByVnni {
  static void run(const Product& product) {
    constexpr auto rows = std::make_integer_sequence<int, vnni_rows>();
    static constexpr auto single = by_rows<1, to_codes, adds>(rows);
    static constexpr auto two = by_rows<2, to_codes, adds>(rows);
    const auto row = static_cast<size_t>(product.rows - 1);
    const int64_t begin = product.first_block, end = product.end_block;
    const int64_t last_pair = end - (end - begin) % 2;
    if (begin < last_pair) two[row](product, begin, last_pair);
    if (last_pair < end) single[row](product, last_pair, end);
  }
};

}  // namespace

void multiply_by_vnni(const Product& product) { compute_outputs<ByVnni>(product); }

}  // namespace composer::int8_amx

#endif

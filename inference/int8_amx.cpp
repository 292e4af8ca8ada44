#include "inference/int8_amx.h"

#include "base/simd.h"
#include "nn/network/pixel_tiles.h"

#ifdef COMPOSER_X86

#include "inference/int8_outputs.h"

namespace composer::int8_amx {
namespace {

constexpr int row_bytes = 64;
constexpr int64_t ahead = 4 * bytes;  ///< distance at which weights are prefetched

/// The compiler does not know that tile instructions read and write memory.
inline void codes_are_in_memory() { asm volatile("" ::: "memory"); }

// Tile registers are numbers in the instruction: sums are in 0 to 3, pixels in 4 and 5, weights in
// 6 and 7.
template <int rows, int columns>
void sum_square(const Product& product, const Patch& patch, Sums& sums) {
  const auto* const tile = product.tiles + patch.tile;
  const int64_t panel = product.step_count * bytes, stride = product.pixel_stride;
  const int8_t* weights = product.weights + patch.block * panel;
  const int32_t* const start = product.start + patch.block * channels;
  const uint8_t* const upper = tile[0].first;
  const uint8_t* const lower = tile[rows - 1].first;
  _tile_loadd(0, start, 0);
  if constexpr (columns > 1) _tile_loadd(1, start + channels, 0);
  if constexpr (rows > 1) _tile_loadd(2, start, 0);
  if constexpr (rows > 1 && columns > 1) _tile_loadd(3, start + channels, 0);
  for (int64_t step = 0; step < product.step_count; ++step, weights += bytes) {
    const int64_t at = product.steps[step];
    _tile_loadd(6, weights, row_bytes);
    _tile_loadd(4, upper + at, stride);
    _tile_dpbusd(0, 4, 6);
    if constexpr (rows > 1) {
      _tile_loadd(5, lower + at, stride);
      _tile_dpbusd(2, 5, 6);
    }
    if constexpr (columns > 1) {
      _tile_loadd(7, weights + panel, row_bytes);
      _tile_dpbusd(1, 4, 7);
      if constexpr (rows > 1) _tile_dpbusd(3, 5, 7);
    }
  }
  _tile_stored(0, sums[0], row_bytes);
  if constexpr (columns > 1) _tile_stored(1, sums[1], row_bytes);
  if constexpr (rows > 1) _tile_stored(2, sums[columns], row_bytes);
  if constexpr (rows > 1 && columns > 1) _tile_stored(3, sums[3], row_bytes);
}

/// Prefetches the weights of a step.
inline void fetch(const int8_t* weights) {
  for (int64_t i = 0; i < bytes; i += row_bytes) _mm_prefetch(weights + i, _MM_HINT_T0);
}

/// The sums of three or four tiles with one block: weights that are not in a cache are read once.
template <int rows>
void sum_column(const Product& product, const Patch& patch, Sums& sums) {
  const auto* const tile = product.tiles + patch.tile;
  const int64_t stride = product.pixel_stride;
  const int8_t* weights = product.weights + patch.block * product.step_count * bytes;
  const int32_t* const start = product.start + patch.block * channels;
  const uint8_t *const first = tile[0].first, *const second = tile[1].first;
  const uint8_t *const third = tile[2].first, *const fourth = tile[rows - 1].first;
  _tile_loadd(0, start, 0);
  _tile_loadd(1, start, 0);
  _tile_loadd(2, start, 0);
  if constexpr (rows > 3) _tile_loadd(3, start, 0);
  for (int64_t step = 0; step < product.step_count; ++step, weights += bytes) {
    const int64_t at = product.steps[step];
    _tile_loadd(6, weights, row_bytes);
    _tile_loadd(4, first + at, stride);
    fetch(weights + ahead);
    _tile_dpbusd(0, 4, 6);
    _tile_loadd(5, second + at, stride);
    _tile_dpbusd(1, 5, 6);
    _tile_loadd(4, third + at, stride);
    _tile_dpbusd(2, 4, 6);
    if constexpr (rows > 3) {
      _tile_loadd(5, fourth + at, stride);
      _tile_dpbusd(3, 5, 6);
    }
  }
  _tile_stored(0, sums[0], row_bytes);
  _tile_stored(1, sums[1], row_bytes);
  _tile_stored(2, sums[2], row_bytes);
  if constexpr (rows > 3) _tile_stored(3, sums[3], row_bytes);
}

void sum(const Product& product, const Patch& patch, Sums& sums) {
  codes_are_in_memory();
  if (patch.rows == 4) sum_column<4>(product, patch, sums);
  if (patch.rows == 3) sum_column<3>(product, patch, sums);
  if (patch.rows == 2 && patch.columns == 2) sum_square<2, 2>(product, patch, sums);
  if (patch.rows == 2 && patch.columns == 1) sum_square<2, 1>(product, patch, sums);
  if (patch.rows == 1 && patch.columns == 2) sum_square<1, 2>(product, patch, sums);
  if (patch.rows == 1 && patch.columns == 1) sum_square<1, 1>(product, patch, sums);
  codes_are_in_memory();
}

/// Computes patch by patch. The outputs of a patch are written while the next sums are computed.
template <bool to_codes, bool adds>
class Pass {
 public:
  explicit Pass(const Product& product) : product_(product), outputs_(product) {}

  void start(const Patch& patch) {
    sum(product_, patch, sums_[started_ % 2]);
    if (started_ > 0) outputs_.write(last_, sums_[(started_ - 1) % 2]);
    last_ = patch;
    ++started_;
  }
  void end() {
    if (started_ > 0) outputs_.write(last_, sums_[(started_ - 1) % 2]);
  }

 private:
  const Product product_;
  Outputs<to_codes, adds> outputs_;
  Patch last_{};
  int started_ = 0;
  Sums sums_[2];
};

/// Reads the larger of pixels and weights once.
template <bool to_codes, bool adds>
struct ByAmx {
  static void run(const Product& product) {
    Pass<to_codes, adds> pass(product);
    const int64_t blocks = product.end_block - product.first_block, tiles = product.tile_count;
    if (blocks * channels > tiles * product.rows) {
      const bool tall = tiles == 3 || tiles == 4;
      Patch patch{};
      for (patch.block = product.first_block; patch.block < product.end_block;
           patch.block += patch.columns) {
        patch.columns = tall ? 1 : at_most(product.end_block - patch.block, 2);
        for (patch.tile = 0; patch.tile < tiles; patch.tile += patch.rows) {
          patch.rows = at_most(tiles - patch.tile, patch.columns == 1 ? 4 : 2);
          pass.start(patch);
        }
      }
      return pass.end();
    }
    Patch patch{};
    for (patch.tile = 0; patch.tile < tiles; patch.tile += patch.rows) {
      patch.rows = at_most(tiles - patch.tile, blocks == 1 ? 4 : 2);
      for (patch.block = product.first_block; patch.block < product.end_block;
           patch.block += patch.columns) {
        patch.columns = at_most(product.end_block - patch.block, 2);
        pass.start(patch);
      }
    }
    pass.end();
  }
};

}  // namespace

void multiply_by_amx(const Product& product) {
  const tiles::Scope scope(tiles::Instructions::amx_bf16, product.rows);
  compute_outputs<ByAmx>(product);
}

}  // namespace composer::int8_amx

#endif

#include "nn/network/pixel_tiles.h"

#include "base/simd.h"

#ifdef COMPOSER_X86

#include <immintrin.h>

namespace composer::tiles {
namespace {

struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t bytes_a_row[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
constexpr int row_bytes = 64;

/// Tells the compiler that memory changes: it does not see what tile instructions read and write.
inline void all_is_in_memory() { asm volatile("" ::: "memory"); }

/// 16 channels, or the first `count` channels, of two pixels.
inline __m512i pair_of(const uint16_t* even, const uint16_t* odd, int64_t count) {
  const auto there = static_cast<__mmask16>(count >= channels ? 0xffff : (1 << count) - 1);
  const auto low = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(there, even));
  const auto high = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(there, odd));
  return _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
}

/// Transposes a 16 x 16 block of 32-bit numbers.
inline void transpose_block(__m512i (&rows)[16]) {
  __m512i other[16];
  for (int i = 0; i < 16; i += 2) {
    other[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
    other[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    rows[i] = _mm512_unpacklo_epi64(other[i], other[i + 2]);
    rows[i + 1] = _mm512_unpackhi_epi64(other[i], other[i + 2]);
    rows[i + 2] = _mm512_unpacklo_epi64(other[i + 1], other[i + 3]);
    rows[i + 3] = _mm512_unpackhi_epi64(other[i + 1], other[i + 3]);
  }
  constexpr int even = 0x88, odd = 0xdd;
  for (int i = 0; i < 4; ++i) {
    other[i] = _mm512_shuffle_i32x4(rows[i], rows[i + 4], even);
    other[i + 4] = _mm512_shuffle_i32x4(rows[i], rows[i + 4], odd);
    other[i + 8] = _mm512_shuffle_i32x4(rows[i + 8], rows[i + 12], even);
    other[i + 12] = _mm512_shuffle_i32x4(rows[i + 8], rows[i + 12], odd);
  }
  for (int i = 0; i < 4; ++i) {
    rows[i] = _mm512_shuffle_i32x4(other[i], other[i + 8], even);
    rows[i + 4] = _mm512_shuffle_i32x4(other[i + 4], other[i + 12], even);
    rows[i + 8] = _mm512_shuffle_i32x4(other[i], other[i + 8], odd);
    rows[i + 12] = _mm512_shuffle_i32x4(other[i + 4], other[i + 12], odd);
  }
}

// Tile registers are immediate operands. One row: the sums are in registers 0 to 4, the left factor
// in 5, the right factors alternate between 6 and 7.
template <int columns>
void multiply_row(const Product& product) {
  const auto& [left, right, sums, rows, all, tiles] = product;
  _tile_loadd(0, sums[0][0], row_bytes);
  if constexpr (columns > 1) _tile_loadd(1, sums[0][1], row_bytes);
  if constexpr (columns > 2) _tile_loadd(2, sums[0][2], row_bytes);
  if constexpr (columns > 3) _tile_loadd(3, sums[0][3], row_bytes);
  if constexpr (columns > 4) _tile_loadd(4, sums[0][4], row_bytes);
  for (int64_t at = 0; at < tiles * values; at += values) {
    _tile_loadd(5, left[0] + at, row_bytes);
    _tile_loadd(6, right[0] + at, row_bytes);
    _tile_dpbf16ps(0, 5, 6);
    if constexpr (columns > 1) {
      _tile_loadd(7, right[1] + at, row_bytes);
      _tile_dpbf16ps(1, 5, 7);
    }
    if constexpr (columns > 2) {
      _tile_loadd(6, right[2] + at, row_bytes);
      _tile_dpbf16ps(2, 5, 6);
    }
    if constexpr (columns > 3) {
      _tile_loadd(7, right[3] + at, row_bytes);
      _tile_dpbf16ps(3, 5, 7);
    }
    if constexpr (columns > 4) {
      _tile_loadd(6, right[4] + at, row_bytes);
      _tile_dpbf16ps(4, 5, 6);
    }
  }
  _tile_stored(0, sums[0][0], row_bytes);
  if constexpr (columns > 1) _tile_stored(1, sums[0][1], row_bytes);
  if constexpr (columns > 2) _tile_stored(2, sums[0][2], row_bytes);
  if constexpr (columns > 3) _tile_stored(3, sums[0][3], row_bytes);
  if constexpr (columns > 4) _tile_stored(4, sums[0][4], row_bytes);
}

/// The sums are in registers 0 to 3, the left factors in 4 and 5, the right factors in 6 and 7.
template <int columns>
void multiply_two_rows(const Product& product) {
  const auto& [left, right, sums, rows, all, tiles] = product;
  _tile_loadd(0, sums[0][0], row_bytes);
  _tile_loadd(2, sums[1][0], row_bytes);
  if constexpr (columns > 1) {
    _tile_loadd(1, sums[0][1], row_bytes);
    _tile_loadd(3, sums[1][1], row_bytes);
  }
  for (int64_t at = 0; at < tiles * values; at += values) {
    _tile_loadd(4, left[0] + at, row_bytes);
    _tile_loadd(5, left[1] + at, row_bytes);
    _tile_loadd(6, right[0] + at, row_bytes);
    if constexpr (columns > 1) _tile_loadd(7, right[1] + at, row_bytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(2, 5, 6);
    if constexpr (columns > 1) {
      _tile_dpbf16ps(1, 4, 7);
      _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, sums[0][0], row_bytes);
  _tile_stored(2, sums[1][0], row_bytes);
  if constexpr (columns > 1) {
    _tile_stored(1, sums[0][1], row_bytes);
    _tile_stored(3, sums[1][1], row_bytes);
  }
}

void multiply_in_tiles(const Product& product) {
  if (product.rows == 2)
    return product.columns == 2 ? multiply_two_rows<2>(product) : multiply_two_rows<1>(product);
  switch (product.columns) {
    case 1:
      return multiply_row<1>(product);
    case 2:
      return multiply_row<2>(product);
    case 3:
      return multiply_row<3>(product);
    case 4:
      return multiply_row<4>(product);
    default:
      return multiply_row<5>(product);
  }
}

void multiply_in_vectors(const uint16_t* left, const uint16_t* right, float* sums, int64_t tiles) {
  __m512 rows[channels];
  for (int i = 0; i < channels; ++i) rows[i] = _mm512_loadu_ps(sums + channels * i);
  for (int64_t at = 0; at < tiles * values; at += values)
    for (int pair = 0; pair < pixels / 2; ++pair) {
      const auto column = (__m512bh)_mm512_loadu_si512(right + at + 2 * channels * pair);
      for (int i = 0; i < channels; ++i) {
        int both;
        __builtin_memcpy(&both, left + at + pixels * i + 2 * pair, sizeof(both));
        rows[i] = _mm512_dpbf16_ps(rows[i], (__m512bh)_mm512_set1_epi32(both), column);
      }
    }
  for (int i = 0; i < channels; ++i) _mm512_storeu_ps(sums + channels * i, rows[i]);
}

}  // namespace

Scope::Scope(Instructions instructions, int rows) : instructions_(instructions) {
  if (instructions_ != Instructions::amx_bf16) return;
  TileConfig config;
  for (int tile = 0; tile < 6; ++tile) config.rows[tile] = static_cast<uint8_t>(rows);
  all_is_in_memory();
  _tile_loadconfig(&config);
}

Scope::~Scope() {
  if (instructions_ == Instructions::amx_bf16) _tile_release();
}

void interleave(const uint16_t* const* from, int64_t pairs, int64_t count, int64_t pitch,
                uint16_t* to) {
  const __m512i first = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40,
                                         8, 39, 7, 38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
  const __m512i second = _mm512_add_epi16(first, _mm512_set1_epi16(channels));
  for (int64_t i = 0; i < pairs; ++i) {
    const uint16_t *even = from[2 * i], *odd = from[2 * i + 1];
    uint16_t* out = to + i * 2 * channels;
    int64_t c = 0;
    for (; c + 2 * channels <= count; c += 2 * channels) {
      const __m512i a = _mm512_loadu_si512(even + c), b = _mm512_loadu_si512(odd + c);
      _mm512_storeu_si512(out, _mm512_permutex2var_epi16(a, first, b));
      out += pitch * 2 * channels;
      _mm512_storeu_si512(out, _mm512_permutex2var_epi16(a, second, b));
      out += pitch * 2 * channels;
    }
    for (; c < count; c += channels, out += pitch * 2 * channels)
      _mm512_storeu_si512(out, pair_of(even + c, odd + c, count - c));
  }
}

void transpose(const uint16_t* const* from, int64_t tiles, int64_t count, uint16_t* to) {
  for (int64_t t = 0; t < tiles; ++t)
    for (int64_t c = 0; c < count; c += channels) {
      const auto* const* pixel = from + pixels * t;
      __m512i rows[16];
      for (int i = 0; i < 16; ++i)
        rows[i] = pair_of(pixel[2 * i] + c, pixel[2 * i + 1] + c, count - c);
      transpose_block(rows);
      uint16_t* const out = to + (c / channels * tiles + t) * values;
      for (int i = 0; i < 16; ++i) _mm512_storeu_si512(out + pixels * i, rows[i]);
    }
}

void multiply(const Product& product, Instructions instructions) {
  all_is_in_memory();
  if (instructions == Instructions::amx_bf16)
    multiply_in_tiles(product);
  else
    for (int row = 0; row < product.rows; ++row)
      for (int column = 0; column < product.columns; ++column)
        multiply_in_vectors(product.left[row], product.right[column], product.sums[row][column],
                            product.tiles);
  all_is_in_memory();
}

}  // namespace composer::tiles

#endif

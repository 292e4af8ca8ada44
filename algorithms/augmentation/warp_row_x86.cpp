#include "algorithms/augmentation/warp_row_x86.h"

#include "composer/simd.h"

#ifdef COMPOSER_X86

// False alarms of GCC 12 within its own header (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

#include <algorithm>
#include <cstring>

// What the plain form rounds twice has no FMA: compilers would use it.
#define AVX2 __attribute__((target("avx2")))
#define AVX2_FMA __attribute__((target("avx2,fma")))

namespace composer {
namespace {

constexpr size_t lanes = 8;

bool applies(const WarpAxis& x, const WarpAxis& y) {
  static const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return has && x.fusible && y.fusible;
}

/// Of 8 pixels from column `first` on.
AVX2_FMA inline __m256 positions(const WarpAxis& axis, float row, size_t first) {
  const __m256 one = _mm256_set1_ps(1);
  __m256 sum = _mm256_fmadd_ps(_mm256_set1_ps(row), _mm256_set1_ps(axis.of_row),
                               _mm256_loadu_ps(axis.of_column.data() + first));
  sum = _mm256_add_ps(_mm256_add_ps(sum, _mm256_set1_ps(axis.constant)), one);
  const __m256 position = _mm256_fmsub_ps(sum, _mm256_set1_ps(axis.half), _mm256_set1_ps(0.5f));
  return _mm256_min_ps(_mm256_max_ps(position, _mm256_set1_ps(-1)), _mm256_set1_ps(axis.last));
}

AVX2_FMA inline __m256i offsets_of(const WarpFrame& from, __m256i columns, __m256i rows) {
  return _mm256_add_epi32(_mm256_mullo_epi32(rows, _mm256_set1_epi32(from.row)),
                          _mm256_mullo_epi32(columns, _mm256_set1_epi32(from.channels)));
}

/// What 8 pixels blend. shares: of the pixel at the upper left, upper right, lower left and lower
/// right; those of the i-th pixel begin at shares[8 * i], of the one four further at + 4.
struct Blends {
  alignas(32) int32_t offsets[lanes];
  alignas(32) float shares[4 * lanes];
};

AVX2_FMA void find_blends(const WarpAxis& x, const WarpAxis& y, float row, const WarpFrame& from,
                          size_t groups, Blends* out) {
  const __m256 one = _mm256_set1_ps(1);
  for (size_t group = 0; group < groups; ++group) {
    const __m256 column = positions(x, row, lanes * group), line = positions(y, row, lanes * group);
    const __m256i left = _mm256_cvttps_epi32(_mm256_add_ps(column, one)),
                  top = _mm256_cvttps_epi32(_mm256_add_ps(line, one));
    const __m256 east = _mm256_sub_ps(column, _mm256_sub_ps(_mm256_cvtepi32_ps(left), one)),
                 south = _mm256_sub_ps(line, _mm256_sub_ps(_mm256_cvtepi32_ps(top), one)),
                 west = _mm256_sub_ps(one, east), north = _mm256_sub_ps(one, south);
    const __m256 north_west = _mm256_mul_ps(north, west), north_east = _mm256_mul_ps(north, east),
                 south_west = _mm256_mul_ps(south, west), south_east = _mm256_mul_ps(south, east);
    const __m256 a = _mm256_unpacklo_ps(north_west, north_east),
                 b = _mm256_unpackhi_ps(north_west, north_east),
                 c = _mm256_unpacklo_ps(south_west, south_east),
                 d = _mm256_unpackhi_ps(south_west, south_east);
    Blends& to = out[group];
    _mm256_store_si256(reinterpret_cast<__m256i*>(to.offsets), offsets_of(from, left, top));
    _mm256_store_ps(to.shares, _mm256_shuffle_ps(a, c, 0x44));
    _mm256_store_ps(to.shares + 8, _mm256_shuffle_ps(a, c, 0xEE));
    _mm256_store_ps(to.shares + 16, _mm256_shuffle_ps(b, d, 0x44));
    _mm256_store_ps(to.shares + 24, _mm256_shuffle_ps(b, d, 0xEE));
  }
}

/// Two pixels, one a half: bytes `which` of `pixels` as numbers, times one of the shares.
template <int share>
AVX2 inline __m256 weighted(__m256i pixels, __m256i which, __m256 shares) {
  return _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_shuffle_epi8(pixels, which)),
                       _mm256_permute_ps(shares, share * 0x55));
}

AVX2 inline __m256i two(const uint8_t* first, const uint8_t* second) {
  return _mm256_loadu2_m128i(reinterpret_cast<const __m128i*>(second),
                             reinterpret_cast<const __m128i*>(first));
}

/// An order that makes a pixel's three bytes from `first` on four numbers, the last of which is 0.
AVX2 inline __m128i channels_at(char first) {
  const auto second = static_cast<char>(first + 1), third = static_cast<char>(first + 2);
  return _mm_setr_epi8(first, -1, -1, -1, second, -1, -1, -1, third, -1, -1, -1, -1, -1, -1, -1);
}

/// Pixels `i` and `i + 4`, each channel in 32 bits.
AVX2 inline __m256i blended(const Blends& blends, size_t i, const WarpFrame& from) {
  const __m256i left = _mm256_broadcastsi128_si256(channels_at(0)),
                right = _mm256_broadcastsi128_si256(channels_at(3));
  const uint8_t* const first = from.pixels + blends.offsets[i];
  const uint8_t* const second = from.pixels + blends.offsets[i + 4];
  const __m256 shares = _mm256_load_ps(blends.shares + 8 * i);
  const __m256i above = two(first, second), below = two(first + from.row, second + from.row);
  __m256 sum = _mm256_add_ps(weighted<0>(above, left, shares), weighted<1>(above, right, shares));
  sum = _mm256_add_ps(sum, weighted<2>(below, left, shares));
  sum = _mm256_add_ps(sum, weighted<3>(below, right, shares));
  return _mm256_cvtps_epi32(sum);
}

/// 24 bytes, and 4 more that mean nothing.
AVX2 inline void blend(const Blends& blends, const WarpFrame& from, uint8_t* out) {
  const __m256i three_of_four = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1));
  const __m256i shorts[2] = {
      _mm256_packs_epi32(blended(blends, 0, from), blended(blends, 1, from)),
      _mm256_packs_epi32(blended(blends, 2, from), blended(blends, 3, from))};
  const __m256i bytes =
      _mm256_shuffle_epi8(_mm256_packus_epi16(shorts[0], shorts[1]), three_of_four);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm256_castsi256_si128(bytes));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 12), _mm256_extracti128_si256(bytes, 1));
}

}  // namespace

AVX2_FMA bool nearest_offsets_avx2(const WarpAxis& x, const WarpAxis& y, float row,
                                   const WarpFrame& from, int32_t* offsets) {
  if (!applies(x, y)) return false;
  const __m256i one = _mm256_set1_epi32(1);
  for (size_t i = 0; i < x.of_column.size(); i += lanes) {
    const __m256i column = _mm256_cvtps_epi32(positions(x, row, i)),
                  line = _mm256_cvtps_epi32(positions(y, row, i));
    _mm256_storeu_si256(
        reinterpret_cast<__m256i*>(offsets + i),
        offsets_of(from, _mm256_add_epi32(column, one), _mm256_add_epi32(line, one)));
  }
  return true;
}

AVX2 bool bilinear_row_avx2(const WarpAxis& x, const WarpAxis& y, float row, const WarpFrame& from,
                            int64_t n, uint8_t* out) {
  if (!applies(x, y)) return false;
  thread_local std::vector<Blends> scratch;
  const size_t groups = x.of_column.size() / lanes;
  scratch.resize(groups);
  Blends* const blends = scratch.data();
  find_blends(x, y, row, from, groups, blends);
  for (size_t group = 0; group < groups; ++group, out += 3 * lanes, n -= lanes) {
    uint8_t last[32];
    const bool whole = n >= static_cast<int64_t>(lanes) + 2;
    blend(blends[group], from, whole ? out : last);
    if (!whole) std::memcpy(out, last, static_cast<size_t>(3 * std::min<int64_t>(n, lanes)));
  }
  return true;
}

}  // namespace composer

#else

namespace composer {

bool nearest_offsets_avx2(const WarpAxis&, const WarpAxis&, float, const WarpFrame&, int32_t*) {
  return false;
}

bool bilinear_row_avx2(const WarpAxis&, const WarpAxis&, float, const WarpFrame&, int64_t,
                       uint8_t*) {
  return false;
}

}  // namespace composer

#endif

#include "data/pixels/resize_triangle_x86.h"

#ifdef COMPOSER_X86

// False alarms of GCC 12 within its own header (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#define AVX2 __attribute__((target("avx2")))
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi,avx512vnni")))
#define INLINE_AVX512 \
  __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi,avx512vnni"), always_inline)) inline

namespace composer {
namespace {

constexpr int kSplit = 11;  // bits of a weight's lower half
constexpr int32_t kHalf = 1 << (kTriangleBits - 1);

__mmask64 first_bytes(int64_t n) { return n >= 64 ? ~0ULL : (1ULL << n) - 1; }

/// Sums of 16 output values, over all steps.
template <bool kOneStep>
INLINE_AVX512 __m512i across_sums(const Lanes& lanes, int64_t window, const uint8_t* in) {
  const __m512i index = _mm512_loadu_si512(lanes.index.data() + window * 16);
  const uint8_t* from = in + lanes.base[static_cast<size_t>(window)];
  const uint32_t* weight = lanes.weights.data() + window * 16;
  const __m512i start = _mm512_set1_epi32(kHalf >> 16);
  if constexpr (kOneStep) {
    const __m512i pixels = _mm512_permutexvar_epi8(index, _mm512_loadu_si512(from));
    const auto weights = [&](int level) { return weight + level * lanes.values; };
    const __m512i high = _mm512_dpbusd_epi32(start, pixels, _mm512_loadu_si512(weights(2)));
    const __m512i middle =
        _mm512_dpbusd_epi32(_mm512_slli_epi32(high, 8), pixels, _mm512_loadu_si512(weights(1)));
    return _mm512_dpbusd_epi32(_mm512_slli_epi32(middle, 8), pixels,
                               _mm512_loadu_si512(weights(0)));
  }
  __m512i high = start, middle = _mm512_setzero_si512(), low = middle;
  for (int64_t s = 0; s < lanes.steps; ++s, from += lanes.step_bytes, weight += 3 * lanes.values) {
    const __m512i pixels = _mm512_permutexvar_epi8(index, _mm512_loadu_si512(from));
    low = _mm512_dpbusd_epi32(low, pixels, _mm512_loadu_si512(weight));
    middle = _mm512_dpbusd_epi32(middle, pixels, _mm512_loadu_si512(weight + lanes.values));
    high = _mm512_dpbusd_epi32(high, pixels, _mm512_loadu_si512(weight + 2 * lanes.values));
  }
  middle = _mm512_add_epi32(_mm512_slli_epi32(high, 8), middle);
  return _mm512_add_epi32(_mm512_slli_epi32(middle, 8), low);
}

template <bool kOneStep>
AVX512 void across_512(const Lanes& lanes, const uint8_t* in, int64_t n, uint8_t* out) {
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  for (int64_t i = 0; i < n; i += 64) {
    __m512i sums[4];
    for (int j = 0; j < 4; ++j) {
      sums[j] = _mm512_srli_epi32(across_sums<kOneStep>(lanes, i / 16 + j, in), kTriangleBits);
    }
    const __m512i bytes = _mm512_packus_epi16(_mm512_packus_epi32(sums[0], sums[1]),
                                              _mm512_packus_epi32(sums[2], sums[3]));
    const __m512i sorted = _mm512_permutexvar_epi32(order, bytes);
    if (n - i >= 64) {
      _mm512_storeu_si512(out + i, sorted);
    } else {
      _mm512_mask_storeu_epi8(out + i, first_bytes(n - i), sorted);
    }
  }
}

INLINE_AVX512 __m512i load_512(const uint8_t* from, int64_t n) {
  return n >= 64 ? _mm512_loadu_si512(from) : _mm512_maskz_loadu_epi8(first_bytes(n), from);
}

/// sums: of 16 values each, as unpacking left them.
INLINE_AVX512 void store_512(const __m512i* sums, int64_t n, uint8_t* out) {
  __m512i shifted[4];
  for (int j = 0; j < 4; ++j) shifted[j] = _mm512_srli_epi32(sums[j], kTriangleBits);
  const __m512i bytes = _mm512_packus_epi16(_mm512_packus_epi32(shifted[0], shifted[1]),
                                            _mm512_packus_epi32(shifted[2], shifted[3]));
  if (n >= 64) {
    _mm512_storeu_si512(out, bytes);
  } else {
    _mm512_mask_storeu_epi8(out, first_bytes(n), bytes);
  }
}

AVX512 void down_two_512(const uint8_t* const* rows, const uint32_t* weights, int64_t n,
                         uint8_t* out) {
  const __m512i zero = _mm512_setzero_si512();
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(weights[0]));
  const __m512i lower = _mm512_set1_epi32(static_cast<int>(weights[1]));
  const __m512i half = _mm512_set1_epi32(kHalf);
  for (int64_t i = 0; i < n; i += 64) {
    const __m512i a = load_512(rows[0] + i, n - i), b = load_512(rows[1] + i, n - i);
    const __m512i left = _mm512_unpacklo_epi8(a, b), right = _mm512_unpackhi_epi8(a, b);
    const __m512i pairs[4] = {_mm512_unpacklo_epi8(left, zero), _mm512_unpackhi_epi8(left, zero),
                              _mm512_unpacklo_epi8(right, zero), _mm512_unpackhi_epi8(right, zero)};
    __m512i sums[4];
    for (int j = 0; j < 4; ++j) {
      const __m512i high = _mm512_slli_epi32(_mm512_madd_epi16(pairs[j], upper), kSplit);
      sums[j] = _mm512_add_epi32(_mm512_dpwssd_epi32(half, pairs[j], lower), high);
    }
    store_512(sums, n - i, out + i);
  }
}

AVX512 void down_quads_512(const uint8_t* const* rows, int64_t taps, const uint32_t* weights,
                           int64_t n, uint8_t* out) {
  const __m512i start = _mm512_set1_epi32(kHalf >> 16), zero = _mm512_setzero_si512();
  for (int64_t i = 0; i < n; i += 64) {
    __m512i high[4] = {start, start, start, start}, middle[4] = {zero, zero, zero, zero};
    __m512i low[4] = {zero, zero, zero, zero};
    for (int64_t k = 0; k < taps; k += 4) {
      __m512i row[4];
      for (int64_t j = 0; j < 4; ++j) {
        row[j] = load_512(rows[std::min(k + j, taps - 1)] + i, n - i);
      }
      const __m512i ab_left = _mm512_unpacklo_epi8(row[0], row[1]);
      const __m512i ab_right = _mm512_unpackhi_epi8(row[0], row[1]);
      const __m512i cd_left = _mm512_unpacklo_epi8(row[2], row[3]);
      const __m512i cd_right = _mm512_unpackhi_epi8(row[2], row[3]);
      const __m512i quads[4] = {
          _mm512_unpacklo_epi16(ab_left, cd_left), _mm512_unpackhi_epi16(ab_left, cd_left),
          _mm512_unpacklo_epi16(ab_right, cd_right), _mm512_unpackhi_epi16(ab_right, cd_right)};
      const uint32_t* weight = weights + k / 4 * 3;
      const __m512i w0 = _mm512_set1_epi32(static_cast<int>(weight[0]));
      const __m512i w1 = _mm512_set1_epi32(static_cast<int>(weight[1]));
      const __m512i w2 = _mm512_set1_epi32(static_cast<int>(weight[2]));
      for (int j = 0; j < 4; ++j) {
        low[j] = _mm512_dpbusd_epi32(low[j], quads[j], w0);
        middle[j] = _mm512_dpbusd_epi32(middle[j], quads[j], w1);
        high[j] = _mm512_dpbusd_epi32(high[j], quads[j], w2);
      }
    }
    for (int j = 0; j < 4; ++j) {
      middle[j] = _mm512_add_epi32(_mm512_slli_epi32(high[j], 8), middle[j]);
      low[j] = _mm512_add_epi32(_mm512_slli_epi32(middle[j], 8), low[j]);
    }
    store_512(low, n - i, out + i);
  }
}

/// The last bytes of a row that do not fill a vector, where the kernel can take them whole.
struct Tail {
  alignas(32) uint8_t bytes[32] = {};

  const uint8_t* of(const uint8_t* from, int64_t n) {
    std::memcpy(bytes, from, static_cast<size_t>(n));
    return bytes;
  }
};

}  // namespace

void triangle_across_avx512(const Lanes& lanes, const uint8_t* in, int64_t n, uint8_t* out) {
  (lanes.steps == 1 ? across_512<true> : across_512<false>)(lanes, in, n, out);
}

void triangle_down_avx512(const uint8_t* const* rows, int64_t taps, const uint32_t* weights,
                          int64_t n, uint8_t* out) {
  if (taps == 2) return down_two_512(rows, weights, n, out);
  down_quads_512(rows, taps, weights, n, out);
}

AVX2 void triangle_across_avx2(const Lanes& lanes, const uint8_t* in, int64_t n, uint8_t* out) {
  const __m256i half = _mm256_set1_epi32(kHalf);
  for (int64_t i = 0; i < n; i += 16) {
    __m256i sums[2];
    for (int64_t j = 0; j < 2; ++j) {
      const int64_t value = i + 8 * j;
      const int32_t* base = lanes.base.data() + value / 4;
      const uint32_t* weight = lanes.weights.data() + value;
      const __m256i index =
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(lanes.index.data() + value));
      __m256i high = _mm256_setzero_si256(), low = half;
      int64_t at = 0;
      for (int64_t s = 0; s < lanes.steps; ++s, at += lanes.step_bytes) {
        const __m256i windows =
            _mm256_loadu2_m128i(reinterpret_cast<const __m128i*>(in + base[1] + at),
                                reinterpret_cast<const __m128i*>(in + base[0] + at));
        const __m256i pixels = _mm256_shuffle_epi8(windows, index);
        const auto* upper = reinterpret_cast<const __m256i*>(weight);
        const auto* lower = reinterpret_cast<const __m256i*>(weight + lanes.values);
        high = _mm256_add_epi32(high, _mm256_madd_epi16(pixels, _mm256_loadu_si256(upper)));
        low = _mm256_add_epi32(low, _mm256_madd_epi16(pixels, _mm256_loadu_si256(lower)));
        weight += 2 * lanes.values;
      }
      sums[j] =
          _mm256_srli_epi32(_mm256_add_epi32(_mm256_slli_epi32(high, kSplit), low), kTriangleBits);
    }
    const __m256i words =
        _mm256_permute4x64_epi64(_mm256_packus_epi32(sums[0], sums[1]), 0b11011000);
    const __m128i bytes =
        _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    if (n - i >= 16) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), bytes);
    } else {
      std::memcpy(out + i, &bytes, static_cast<size_t>(n - i));
    }
  }
}

AVX2 void triangle_across_wide_avx2(const int32_t* firsts, const uint32_t* weights, int64_t steps,
                                    int64_t pixels, const uint8_t* in, uint8_t* out) {
  const __m256i spread =
      _mm256_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1, 6, -1, 9, -1, 7,
                       -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1);
  const __m256i upper = _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1);
  const __m256i lower = _mm256_setr_epi32(2, 2, 2, 2, 3, 3, 3, 3);
  for (int64_t x = 0; x < pixels; ++x, out += 3) {
    const uint8_t* from = in + firsts[x];
    __m256i high = _mm256_setzero_si256(), low = high;
    for (int64_t s = 0; s < steps; ++s, from += 12, weights += 4) {
      const auto* bytes = reinterpret_cast<const __m128i*>(from);
      const auto* four = reinterpret_cast<const __m128i*>(weights);
      const __m256i taps =
          _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128(bytes)), spread);
      const __m256i weight = _mm256_castsi128_si256(_mm_loadu_si128(four));
      high = _mm256_add_epi32(high,
                              _mm256_madd_epi16(taps, _mm256_permutevar8x32_epi32(weight, upper)));
      low = _mm256_add_epi32(low,
                             _mm256_madd_epi16(taps, _mm256_permutevar8x32_epi32(weight, lower)));
    }
    const __m256i both = _mm256_add_epi32(_mm256_slli_epi32(high, kSplit), low);
    __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
    sum = _mm_srli_epi32(_mm_add_epi32(sum, _mm_set1_epi32(kHalf)), kTriangleBits);
    sum = _mm_packus_epi16(_mm_packus_epi32(sum, sum), sum);
    const auto rgb = static_cast<uint32_t>(_mm_cvtsi128_si32(sum));
    std::memcpy(out, &rgb, 2);
    out[2] = static_cast<uint8_t>(rgb >> 16);
  }
}

AVX2 void triangle_down_avx2(const uint8_t* const* rows, int64_t taps, const uint32_t* weights,
                             int64_t n, uint8_t* out) {
  const __m256i zero = _mm256_setzero_si256(), half = _mm256_set1_epi32(kHalf);
  for (int64_t i = 0; i < n; i += 32) {
    const int64_t left = n - i;
    __m256i high[4] = {zero, zero, zero, zero}, low[4] = {half, half, half, half};
    for (int64_t k = 0; k < taps; k += 2) {
      Tail tails[2];
      __m256i row[2];
      for (int64_t j = 0; j < 2; ++j) {
        const uint8_t* from = rows[std::min(k + j, taps - 1)] + i;
        if (left < 32) from = tails[j].of(from, left);
        row[j] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
      }
      const __m256i near = _mm256_unpacklo_epi8(row[0], row[1]);
      const __m256i far = _mm256_unpackhi_epi8(row[0], row[1]);
      const __m256i pairs[4] = {_mm256_unpacklo_epi8(near, zero), _mm256_unpackhi_epi8(near, zero),
                                _mm256_unpacklo_epi8(far, zero), _mm256_unpackhi_epi8(far, zero)};
      const __m256i upper = _mm256_set1_epi32(static_cast<int>(weights[k]));
      const __m256i lower = _mm256_set1_epi32(static_cast<int>(weights[k + 1]));
      for (int j = 0; j < 4; ++j) {
        high[j] = _mm256_add_epi32(high[j], _mm256_madd_epi16(pairs[j], upper));
        low[j] = _mm256_add_epi32(low[j], _mm256_madd_epi16(pairs[j], lower));
      }
    }
    __m256i sums[4];
    for (int j = 0; j < 4; ++j) {
      sums[j] = _mm256_srli_epi32(_mm256_add_epi32(_mm256_slli_epi32(high[j], kSplit), low[j]),
                                  kTriangleBits);
    }
    const __m256i bytes = _mm256_packus_epi16(_mm256_packus_epi32(sums[0], sums[1]),
                                              _mm256_packus_epi32(sums[2], sums[3]));
    if (left >= 32) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), bytes);
    } else {
      std::memcpy(out + i, &bytes, static_cast<size_t>(left));
    }
  }
}

}  // namespace composer

#endif

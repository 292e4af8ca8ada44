#include "data/pixels/resize_area_x86.h"

#ifdef COMPOSER_X86

// False alarms of GCC 12 within its own header (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#define AVX2 __attribute__((target("avx2")))
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi")))

// Compiled without fused multiply-add (data/CMakeLists.txt): equal to OpenCV to the last bit.
namespace composer {
namespace {

constexpr int kDropped = 4;  // bits of a linear sum between the passes

AVX512 inline void store_first(uint8_t* out, int64_t n, __m512i bytes) {
  if (n >= 64) {
    _mm512_storeu_si512(out, bytes);
  } else {
    _mm512_mask_storeu_epi8(out, (1ULL << n) - 1, bytes);
  }
}

AVX2 inline void store_first(uint8_t* out, int64_t n, __m256i bytes) {
  if (n >= 32) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), bytes);
  } else {
    std::memcpy(out, &bytes, static_cast<size_t>(n));
  }
}

AVX2 inline __m256i load_windows(const uint8_t* in, const int32_t* base, int64_t at) {
  return _mm256_loadu2_m128i(reinterpret_cast<const __m128i*>(in + base[1] + at),
                             reinterpret_cast<const __m128i*>(in + base[0] + at));
}

AVX2 inline __m256i load_256(const void* from) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}

}  // namespace

AVX512 void linear_across_avx512(const Lanes& lanes, const uint8_t* in, int16_t* out) {
  constexpr __mmask64 kLowBytes = 0x5555555555555555;
  const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
  for (int64_t i = 0; i < lanes.values; i += 32) {
    __m512i sums[2];
    for (int64_t j = 0; j < 2; ++j) {
      const int64_t value = i + 16 * j;
      const uint8_t* from = in + lanes.base[static_cast<size_t>(value / 16)];
      const __m512i pixels = _mm512_maskz_permutexvar_epi8(
          kLowBytes, _mm512_loadu_si512(lanes.index.data() + value), _mm512_loadu_si512(from));
      const __m512i weights = _mm512_loadu_si512(lanes.weights.data() + value);
      sums[j] = _mm512_srli_epi32(_mm512_madd_epi16(pixels, weights), kDropped);
    }
    const __m512i packed = _mm512_packs_epi32(sums[0], sums[1]);
    _mm512_storeu_si512(out + i, _mm512_permutexvar_epi64(order, packed));
  }
}

AVX2 void linear_across_avx2(const Lanes& lanes, const uint8_t* in, int16_t* out) {
  for (int64_t i = 0; i < lanes.values; i += 16) {
    __m256i sums[2];
    for (int64_t j = 0; j < 2; ++j) {
      const int64_t value = i + 8 * j;
      const __m256i windows = load_windows(in, lanes.base.data() + value / 4, 0);
      const __m256i pixels = _mm256_shuffle_epi8(windows, load_256(lanes.index.data() + value));
      const __m256i weights = load_256(lanes.weights.data() + value);
      sums[j] = _mm256_srli_epi32(_mm256_madd_epi16(pixels, weights), kDropped);
    }
    const __m256i packed = _mm256_packs_epi32(sums[0], sums[1]);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i),
                        _mm256_permute4x64_epi64(packed, 0b11011000));
  }
}

AVX512 void linear_down_avx512(const int16_t* const rows[2], const int32_t weights[2], int64_t n,
                               uint8_t* out) {
  const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
  const __m512i above = _mm512_set1_epi16(static_cast<int16_t>(weights[0]));
  const __m512i below = _mm512_set1_epi16(static_cast<int16_t>(weights[1]));
  const __m512i two = _mm512_set1_epi16(2);
  for (int64_t i = 0; i < n; i += 64) {
    __m512i words[2];
    for (int64_t j = 0; j < 2; ++j) {
      const __m512i a = _mm512_mulhi_epi16(_mm512_loadu_si512(rows[0] + i + 32 * j), above);
      const __m512i b = _mm512_mulhi_epi16(_mm512_loadu_si512(rows[1] + i + 32 * j), below);
      words[j] = _mm512_srli_epi16(_mm512_add_epi16(_mm512_add_epi16(a, b), two), 2);
    }
    const __m512i packed = _mm512_packus_epi16(words[0], words[1]);
    store_first(out + i, n - i, _mm512_permutexvar_epi64(order, packed));
  }
}

AVX2 void linear_down_avx2(const int16_t* const rows[2], const int32_t weights[2], int64_t n,
                           uint8_t* out) {
  const __m256i above = _mm256_set1_epi16(static_cast<int16_t>(weights[0]));
  const __m256i below = _mm256_set1_epi16(static_cast<int16_t>(weights[1]));
  const __m256i two = _mm256_set1_epi16(2);
  for (int64_t i = 0; i < n; i += 32) {
    __m256i words[2];
    for (int64_t j = 0; j < 2; ++j) {
      const __m256i a = _mm256_mulhi_epi16(load_256(rows[0] + i + 16 * j), above);
      const __m256i b = _mm256_mulhi_epi16(load_256(rows[1] + i + 16 * j), below);
      words[j] = _mm256_srli_epi16(_mm256_add_epi16(_mm256_add_epi16(a, b), two), 2);
    }
    const __m256i packed = _mm256_packus_epi16(words[0], words[1]);
    store_first(out + i, n - i, _mm256_permute4x64_epi64(packed, 0b11011000));
  }
}

AVX512 void box_across_avx512(const Lanes& lanes, const uint8_t* in, float* out) {
  constexpr __mmask64 kLowestBytes = 0x1111111111111111;
  for (int64_t i = 0; i < lanes.values; i += 16) {
    const __m512i index = _mm512_loadu_si512(lanes.index.data() + i);
    const uint8_t* from = in + lanes.base[static_cast<size_t>(i / 16)];
    const auto* weight = reinterpret_cast<const float*>(lanes.weights.data()) + i;
    __m512 sum = _mm512_setzero_ps();
    for (int64_t k = 0; k < lanes.steps; ++k, from += lanes.step_bytes, weight += lanes.values) {
      const __m512i pixels =
          _mm512_maskz_permutexvar_epi8(kLowestBytes, index, _mm512_loadu_si512(from));
      sum = _mm512_add_ps(sum, _mm512_mul_ps(_mm512_cvtepi32_ps(pixels), _mm512_loadu_ps(weight)));
    }
    _mm512_storeu_ps(out + i, sum);
  }
}

AVX2 void box_across_avx2(const Lanes& lanes, const uint8_t* in, float* out) {
  for (int64_t i = 0; i < lanes.values; i += 8) {
    const __m256i index = load_256(lanes.index.data() + i);
    const int32_t* base = lanes.base.data() + i / 4;
    const auto* weight = reinterpret_cast<const float*>(lanes.weights.data()) + i;
    __m256 sum = _mm256_setzero_ps();
    int64_t at = 0;
    for (int64_t k = 0; k < lanes.steps; ++k, at += lanes.step_bytes, weight += lanes.values) {
      const __m256i pixels = _mm256_shuffle_epi8(load_windows(in, base, at), index);
      sum = _mm256_add_ps(sum, _mm256_mul_ps(_mm256_cvtepi32_ps(pixels), _mm256_loadu_ps(weight)));
    }
    _mm256_storeu_ps(out + i, sum);
  }
}

AVX512 void box_down_avx512(const float* const* rows, int64_t taps, const float* weights,
                            int64_t weight_stride, int64_t n, uint8_t* out) {
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  for (int64_t i = 0; i < n; i += 64) {
    __m512 sums[4] = {_mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps(),
                      _mm512_setzero_ps()};
    for (int64_t k = 0; k < taps; ++k) {
      const __m512 weight = _mm512_set1_ps(weights[k * weight_stride]);
      for (int64_t j = 0; j < 4; ++j) {
        const __m512 row = _mm512_loadu_ps(rows[k] + i + 16 * j);
        sums[j] = _mm512_add_ps(sums[j], _mm512_mul_ps(row, weight));
      }
    }
    const __m512i left =
        _mm512_packus_epi32(_mm512_cvtps_epi32(sums[0]), _mm512_cvtps_epi32(sums[1]));
    const __m512i right =
        _mm512_packus_epi32(_mm512_cvtps_epi32(sums[2]), _mm512_cvtps_epi32(sums[3]));
    const __m512i bytes = _mm512_permutexvar_epi32(order, _mm512_packus_epi16(left, right));
    store_first(out + i, n - i, bytes);
  }
}

AVX2 void box_down_avx2(const float* const* rows, int64_t taps, const float* weights,
                        int64_t weight_stride, int64_t n, uint8_t* out) {
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  for (int64_t i = 0; i < n; i += 32) {
    __m256 sums[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(),
                      _mm256_setzero_ps()};
    for (int64_t k = 0; k < taps; ++k) {
      const __m256 weight = _mm256_set1_ps(weights[k * weight_stride]);
      for (int64_t j = 0; j < 4; ++j) {
        const __m256 row = _mm256_loadu_ps(rows[k] + i + 8 * j);
        sums[j] = _mm256_add_ps(sums[j], _mm256_mul_ps(row, weight));
      }
    }
    const __m256i left =
        _mm256_packus_epi32(_mm256_cvtps_epi32(sums[0]), _mm256_cvtps_epi32(sums[1]));
    const __m256i right =
        _mm256_packus_epi32(_mm256_cvtps_epi32(sums[2]), _mm256_cvtps_epi32(sums[3]));
    const __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(left, right), order);
    store_first(out + i, n - i, bytes);
  }
}

}  // namespace composer

#endif

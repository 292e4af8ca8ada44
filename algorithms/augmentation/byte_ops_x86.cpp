#include "algorithms/augmentation/byte_ops_x86.h"

#include "composer/simd.h"

#ifdef COMPOSER_X86

// False alarms of GCC 12 within its own header (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

#include <cstring>

// Without FMA, which compilers would use where the plain form rounds twice.
#define AVX2 __attribute__((target("avx2")))

namespace composer::bytes {
namespace {

bool has_avx2() {
  static const bool has = __builtin_cpu_supports("avx2");
  return has;
}

AVX2 inline __m256 load(const uint8_t* at) {
  return _mm256_cvtepi32_ps(
      _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(at))));
}

AVX2 inline __m256 load(const float* at) { return _mm256_loadu_ps(at); }

/// Whole numbers up to 255; packing makes 0 of the negative ones.
AVX2 inline __m256i below_256(__m256 levels) {
  return _mm256_cvttps_epi32(_mm256_min_ps(levels, _mm256_set1_ps(255)));
}

AVX2 inline __m256i positive(__m256i levels) {
  return _mm256_max_epi32(levels, _mm256_setzero_si256());
}

AVX2 inline void store(const __m256i (&levels)[4], uint8_t* to) {
  const __m256i bytes = _mm256_packus_epi16(_mm256_packs_epi32(levels[0], levels[1]),
                                            _mm256_packs_epi32(levels[2], levels[3]));
  _mm256_storeu_si256(
      reinterpret_cast<__m256i*>(to),
      _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
}

AVX2 inline __m256 mixed(__m256 factor, __m256 value, __m256 rest, __m256 other) {
  return _mm256_add_ps(_mm256_mul_ps(factor, value), _mm256_mul_ps(rest, other));
}

/// Bytes c, c + 3, c + 6 and c + 9 of each half.
template <char c>
AVX2 inline __m256 channel(__m256i pixels) {
  const __m256i which = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(c, -1, -1, -1, c + 3, -1, -1, -1, c + 6, -1, -1, -1, c + 9, -1, -1, -1));
  return _mm256_cvtepi32_ps(_mm256_shuffle_epi8(pixels, which));
}

struct Pixels {
  __m256 red, green, blue;
};

/// Eight pixels; reads 28 bytes.
AVX2 inline Pixels load_pixels(const uint8_t* at) {
  const __m256i pixels = _mm256_loadu2_m128i(reinterpret_cast<const __m128i*>(at + 12),
                                             reinterpret_cast<const __m128i*>(at));
  return {channel<0>(pixels), channel<1>(pixels), channel<2>(pixels)};
}

AVX2 inline __m256i greys(const Pixels& from) {
  const __m256 red_and_green =
      mixed(_mm256_set1_ps(0.2989f), from.red, _mm256_set1_ps(0.587f), from.green);
  return _mm256_cvttps_epi32(
      _mm256_add_ps(red_and_green, _mm256_mul_ps(_mm256_set1_ps(0.114f), from.blue)));
}

/// Numbers from 0 to 255 in 32 bits; writes 24 bytes.
AVX2 inline void store_pixels(__m256i red, __m256i green, __m256i blue, uint8_t* to) {
  const __m256i three_of_four = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1));
  const __m256i pixels = _mm256_or_si256(_mm256_or_si256(red, _mm256_slli_epi32(green, 8)),
                                         _mm256_slli_epi32(blue, 16));
  const __m256i bytes = _mm256_shuffle_epi8(pixels, three_of_four);
  const __m128i end = _mm256_extracti128_si256(bytes, 1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_castsi256_si128(bytes));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to + 12), end);
  const int32_t rest = _mm_extract_epi32(end, 2);
  std::memcpy(to + 20, &rest, sizeof rest);
}

/// Of 8 values from the i-th on, whose channels follow one another.
AVX2 inline __m256 cycled(const std::array<float, 3>& of_channels, size_t i) {
  std::array<float, 8> values;
  for (size_t j = 0; j < 8; ++j) values[j] = of_channels[(i + j) % 3];
  return _mm256_loadu_ps(values.data());
}

template <class T>
AVX2 inline int64_t blend_any(const Blend& by, const T* others, uint8_t* values, int64_t n) {
  if (!has_avx2()) return 0;
  const __m256 factor = _mm256_set1_ps(by.factor), rest = _mm256_set1_ps(by.rest);
  int64_t done = 0;
  for (; done <= n - 32; done += 32) {
    __m256i levels[4];
    for (int64_t i = 0; i < 4; ++i) {
      const int64_t at = done + 8 * i;
      levels[i] = below_256(mixed(factor, load(values + at), rest, load(others + at)));
    }
    store(levels, values + done);
  }
  return done;
}

}  // namespace

AVX2 int64_t stretch_avx2(const Stretch& by, uint8_t* values, int64_t n) {
  constexpr int64_t block = 96;
  if (!has_avx2() || n < block) return 0;
  __m256 least[3], factors[3];
  for (size_t i = 0; i < 3; ++i) {
    least[i] = cycled(by.least, 8 * i);
    factors[i] = cycled(by.factor, 8 * i);
  }
  const __m256 added = _mm256_set1_ps(by.added);
  int64_t done = 0;
  for (; done <= n - block; done += block)
    for (size_t part = 0; part < 3; ++part) {
      uint8_t* const at = values + done + 32 * part;
      __m256i levels[4];
      for (size_t i = 0; i < 4; ++i) {
        const size_t phase = (4 * part + i) % 3;
        const __m256 above = _mm256_sub_ps(load(at + 8 * i), least[phase]);
        levels[i] = below_256(_mm256_add_ps(_mm256_mul_ps(above, factors[phase]), added));
      }
      store(levels, at);
    }
  return done;
}

AVX2 int64_t blend_avx2(const Blend& by, const uint8_t* others, uint8_t* values, int64_t n) {
  return blend_any(by, others, values, n);
}

AVX2 int64_t blend_avx2(const Blend& by, const float* others, uint8_t* values, int64_t n) {
  return blend_any(by, others, values, n);
}

AVX2 int64_t blend_greys_avx2(const Blend& by, uint8_t* pixels, int64_t n) {
  if (!has_avx2()) return 0;
  const __m256 factor = _mm256_set1_ps(by.factor), rest = _mm256_set1_ps(by.rest);
  int64_t done = 0;
  for (; done <= n - 10; done += 8) {
    uint8_t* const at = pixels + 3 * done;
    const Pixels from = load_pixels(at);
    const __m256 grey = _mm256_cvtepi32_ps(greys(from));
    store_pixels(positive(below_256(mixed(factor, from.red, rest, grey))),
                 positive(below_256(mixed(factor, from.green, rest, grey))),
                 positive(below_256(mixed(factor, from.blue, rest, grey))), at);
  }
  return done;
}

AVX2 int64_t sum_of_greys_avx2(const uint8_t* pixels, int64_t n, int64_t& sum) {
  if (!has_avx2()) return 0;
  const __m256i zero = _mm256_setzero_si256();
  __m256i sums = zero;
  int64_t done = 0;
  for (; done <= n - 10; done += 8) {
    const __m256i sums_of_four = _mm256_sad_epu8(greys(load_pixels(pixels + 3 * done)), zero);
    sums = _mm256_add_epi64(sums, sums_of_four);
  }
  sum += _mm256_extract_epi64(sums, 0) + _mm256_extract_epi64(sums, 1) +
         _mm256_extract_epi64(sums, 2) + _mm256_extract_epi64(sums, 3);
  return done;
}

}  // namespace composer::bytes

#else

namespace composer::bytes {

int64_t stretch_avx2(const Stretch&, uint8_t*, int64_t) { return 0; }
int64_t blend_avx2(const Blend&, const uint8_t*, uint8_t*, int64_t) { return 0; }
int64_t blend_avx2(const Blend&, const float*, uint8_t*, int64_t) { return 0; }
int64_t blend_greys_avx2(const Blend&, uint8_t*, int64_t) { return 0; }
int64_t sum_of_greys_avx2(const uint8_t*, int64_t, int64_t&) { return 0; }

}  // namespace composer::bytes

#endif

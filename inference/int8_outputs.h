// Requantization of the sums of int8_amx.h and int8_winograd.h by AVX-512 instructions. For files
// that are compiled for processors with these instructions.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "inference/int8_amx.h"

namespace composer::int8_amx {
namespace {

constexpr int sums_of_tile = pixels * channels;

/// Some tiles of pixels times some blocks of channels: at most four products.
struct Patch {
  int64_t tile, block;
  int rows, columns;
};

struct alignas(64) Sums {
  int32_t of[4][sums_of_tile];  ///< one array per product, pixel by pixel

  int32_t* operator[](int index) { return of[index]; }
};

inline int at_most(int64_t count, int most) {
  return count < most ? static_cast<int>(count) : most;
}

inline __m512 numbers_of_bytes(__m128i values) {
  return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(values));
}

/// Scales the sums of a block of channels and adds offset and addend, pixel by pixel.
template <bool adds>
class Finish {
 public:
  Finish(const Requantization& layer, const int32_t* sums, int64_t block)
      : scale_(_mm512_loadu_ps(layer.scale + block * channels)),
        offset_(_mm512_loadu_ps(layer.offset + block * channels)),
        addend_scale_(_mm512_set1_ps(layer.addend_scale)),
        there_(lanes(layer.out_channels - block * channels)),
        sums_(sums),
        addend_(layer.addend) {}

  __mmask16 there() const { return there_; }

  /// at: offset of the block's first output of the pixel.
  __m512 operator()(int row, int64_t at) const {
    return of(_mm512_load_si512(sums_ + channels * row), at);
  }

  __m512 of(__m512i sum, int64_t at) const {
    const __m512 value = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), scale_, offset_);
    if constexpr (!adds) return value;
    const __m128i addend = _mm_maskz_loadu_epi8(there_, addend_ + at);
    return _mm512_fmadd_ps(numbers_of_bytes(addend), addend_scale_, value);
  }

 private:
  static __mmask16 lanes(int64_t left) {
    return static_cast<__mmask16>(left >= channels ? 0xffff : (1 << left) - 1);
  }

  const __m512 scale_, offset_, addend_scale_;
  const __mmask16 there_;
  const int32_t* const sums_;
  const uint8_t* const addend_;
};

/// Rounds four vectors of numbers to one vector of codes, in order.
class Rounding {
 public:
  explicit Rounding(const Requantization& layer)
      : zero_point_(_mm512_set1_epi16(layer.zero_point)),
        least_(_mm512_set1_epi8(static_cast<char>(layer.relu ? layer.zero_point : 0))),
        most_(_mm512_set1_epi8(static_cast<char>(layer.most_code))) {}

  __m512i operator()(__m512 a, __m512 b, __m512 c, __m512 d) const {
    const __m512i words = _mm512_packus_epi16(pair(a, b), pair(c, d));
    const __m512i codes = _mm512_min_epu8(_mm512_max_epu8(words, least_), most_);
    return _mm512_permutexvar_epi32(order_, codes);
  }

 private:
  __m512i pair(__m512 a, __m512 b) const {
    const __m512i integers = _mm512_packs_epi32(_mm512_cvtps_epi32(a), _mm512_cvtps_epi32(b));
    return _mm512_adds_epi16(integers, zero_point_);
  }

  const __m512i zero_point_, least_, most_;
  const __m512i order_ = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
};

/// Writes the outputs of two blocks for a tile whose output indices are consecutive.
template <int rows, bool adds>
class FollowingRows {
 public:
  static constexpr int pairs = (rows + 1) / 2;

  [[gnu::always_inline]] FollowingRows(const Requantization& layer, const Rounding& rounding,
                                       int32_t index, int64_t block)
      : rounding_(rounding),
        left_(layer, nullptr, block),
        right_(layer, nullptr, block + 1),
        there_(_mm512_kunpackw(right_.there(), left_.there())),
        codes_(layer.codes),
        out_channels_(layer.out_channels),
        at_(index * layer.out_channels + block * channels) {}

  /// Writes row 2 * pair and the next row, if there is one.
  [[gnu::always_inline]] void write(const __m512i (&sums)[rows][2], int pair) const {
    const int row = 2 * pair;
    const bool single = row + 1 == rows;
    const auto& below = sums[single ? row : row + 1];
    const int64_t upper = at_ + row * out_channels_;
    const int64_t lower = single ? upper : upper + out_channels_;
    const __m512i codes =
        rounding_(left_.of(sums[row][0], upper), right_.of(sums[row][1], upper + channels),
                  left_.of(below[0], lower), right_.of(below[1], lower + channels));
    _mm256_mask_storeu_epi8(codes_ + upper, there_, _mm512_castsi512_si256(codes));
    if (!single)
      _mm256_mask_storeu_epi8(codes_ + lower, there_, _mm512_extracti64x4_epi64(codes, 1));
  }

 private:
  const Rounding& rounding_;
  const Finish<adds> left_, right_;
  const __mmask32 there_;
  uint8_t* const codes_;
  const int64_t out_channels_, at_;
};

/// Writes the outputs of any tile.
template <bool to_codes, bool adds>
class Outputs {
 public:
  explicit Outputs(const Product& product) : product_(product), rounding_(product) {}

  void write(const Patch& patch, Sums& sums) {
    for (int row = 0; row < patch.rows; ++row) {
      const PixelTile& tile = product_.tiles[patch.tile + row];
      const int32_t* const of_row = sums[row * patch.columns];
      if constexpr (!to_codes) {
        for (int column = 0; column < patch.columns; ++column)
          write_numbers(of_row + column * sums_of_tile, tile.indices, patch.block + column);
      } else if (patch.columns == 2) {
        write_two_blocks(of_row, tile.indices, patch.block);
      } else {
        write_block(of_row, tile.indices, patch.block);
      }
    }
  }

 private:
  void write_block(const int32_t* sums, const int32_t* indices, int64_t block) {
    const Finish<adds> finish(product_, sums, block);
    for (int row = 0; row < product_.rows; row += 4) {
      const int64_t first = at(indices[row], block), second = at(indices[row + 1], block);
      const int64_t third = at(indices[row + 2], block), fourth = at(indices[row + 3], block);
      const __m512i codes = rounding_(finish(row, first), finish(row + 1, second),
                                      finish(row + 2, third), finish(row + 3, fourth));
      const __mmask16 there = finish.there();
      _mm_mask_storeu_epi8(to(indices[row], first), there, _mm512_castsi512_si128(codes));
      _mm_mask_storeu_epi8(to(indices[row + 1], second), there,
                           _mm512_extracti32x4_epi32(codes, 1));
      _mm_mask_storeu_epi8(to(indices[row + 2], third), there, _mm512_extracti32x4_epi32(codes, 2));
      _mm_mask_storeu_epi8(to(indices[row + 3], fourth), there,
                           _mm512_extracti32x4_epi32(codes, 3));
    }
  }

  void write_two_blocks(const int32_t* sums, const int32_t* indices, int64_t block) {
    const Finish<adds> left(product_, sums, block), right(product_, sums + sums_of_tile, block + 1);
    const __mmask32 there = _mm512_kunpackw(right.there(), left.there());
    for (int row = 0; row < product_.rows; row += 2) {
      const int64_t upper = at(indices[row], block), lower = at(indices[row + 1], block);
      const __m512i codes = rounding_(left(row, upper), right(row, upper + channels),
                                      left(row + 1, lower), right(row + 1, lower + channels));
      _mm256_mask_storeu_epi8(to(indices[row], upper), there, _mm512_castsi512_si256(codes));
      _mm256_mask_storeu_epi8(to(indices[row + 1], lower), there,
                              _mm512_extracti64x4_epi64(codes, 1));
    }
  }

  void write_numbers(const int32_t* sums, const int32_t* indices, int64_t block) {
    const Finish<adds> finish(product_, sums, block);
    const __m512 least = _mm512_set1_ps(product_.relu ? 0.0f : -__builtin_inff());
    for (int row = 0; row < product_.rows; ++row) {
      if (indices[row] < 0) continue;
      const int64_t first = at(indices[row], block);
      _mm512_mask_storeu_ps(product_.numbers + first, finish.there(),
                            _mm512_max_ps(finish(row, first), least));
    }
  }

  /// Offset of a pixel's first output in the block. A pixel without an output gets the offset of
  /// the first pixel, where an addend may be read.
  int64_t at(int32_t index, int64_t block) const {
    return (index < 0 ? 0 : index) * product_.out_channels + block * channels;
  }
  uint8_t* to(int32_t index, int64_t at) { return index < 0 ? nowhere_ : product_.codes + at; }

  const Product product_;
  const Rounding rounding_;
  uint8_t nowhere_[64];
};

/// Calls Compute<to_codes, adds>::run(product) with the kind of outputs that the product has.
template <template <bool, bool> class Compute>
void compute_outputs(const Product& product) {
  const bool to_codes = product.codes != nullptr, adds = product.addend != nullptr;
  if (to_codes && adds) Compute<true, true>::run(product);
  if (to_codes && !adds) Compute<true, false>::run(product);
  if (!to_codes && adds) Compute<false, true>::run(product);
  if (!to_codes && !adds) Compute<false, false>::run(product);
}

}  // namespace
}  // namespace composer::int8_amx

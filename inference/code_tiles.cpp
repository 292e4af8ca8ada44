#include "inference/code_tiles.h"

#include "composer/network/pixel_tiles.h"
#include "composer/simd.h"

#ifdef COMPOSER_X86

#include <immintrin.h>

namespace composer::code_tiles {
namespace {

constexpr int row_bytes = 64;
constexpr int sums_of_tile = pixels * channels;
constexpr int64_t ahead = 4 * bytes;  ///< how far weights are fetched before they are used

/// What a compiler knows of memory, the instructions for tiles read and write without its knowing.
inline void codes_are_in_memory() { asm volatile("" ::: "memory"); }

/// Tiles of pixels by blocks of channels, four products at most.
struct Patch {
  int64_t tile, block;
  int rows, columns;
};

struct alignas(64) Sums {
  int32_t of[4][sums_of_tile];  ///< row by row

  int32_t* operator[](int index) { return of[index]; }
};

// Which registers an instruction works on is part of it. Sums are in 0 to 3, pixels in 4 and 5,
// weights in 6 and 7.
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

/// A step's weights, into the caches.
inline void fetch(const int8_t* weights) {
  for (int64_t i = 0; i < bytes; i += row_bytes) _mm_prefetch(weights + i, _MM_HINT_T0);
}

/// Three or four tiles of pixels, of one block: weights are read once, from far away.
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

inline __m512 numbers_of_bytes(__m128i values) {
  return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(values));
}

/// What becomes of the sums of a block of channels, pixel by pixel.
template <bool adds>
class Finish {
 public:
  Finish(const Product& product, const int32_t* sums, int64_t block)
      : scale_(_mm512_loadu_ps(product.scale + block * channels)),
        offset_(_mm512_loadu_ps(product.offset + block * channels)),
        addend_scale_(_mm512_set1_ps(product.addend_scale)),
        there_(lanes(product.out_channels - block * channels)),
        sums_(sums),
        addend_(product.addend) {}

  __mmask16 there() const { return there_; }

  /// at: of the pixel's and the block's first output.
  __m512 operator()(int row, int64_t at) const {
    const __m512i sum = _mm512_load_si512(sums_ + channels * row);
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

/// Four vectors of numbers to one of codes, in order.
class Rounding {
 public:
  explicit Rounding(const Product& product)
      : zero_point_(_mm512_set1_epi16(product.zero_point)),
        least_(_mm512_set1_epi8(static_cast<char>(product.relu ? product.zero_point : 0))),
        most_(_mm512_set1_epi8(static_cast<char>(product.most_code))) {}

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

/// Patch by patch. What follows a patch's sums is done while the next one's are being made.
template <bool to_codes, bool adds>
class Pass {
 public:
  explicit Pass(const Product& product) : product_(product), rounding_(product) {}

  void start(const Patch& patch) {
    sum(product_, patch, sums_[started_ % 2]);
    if (started_ > 0) finish(last_, sums_[(started_ - 1) % 2]);
    last_ = patch;
    ++started_;
  }
  void end() {
    if (started_ > 0) finish(last_, sums_[(started_ - 1) % 2]);
  }

 private:
  void finish(const Patch& patch, Sums& sums) {
    for (int row = 0; row < patch.rows; ++row) {
      const int32_t* const places = product_.tiles[patch.tile + row].places;
      const int32_t* const of_row = sums[row * patch.columns];
      if constexpr (!to_codes) {
        for (int column = 0; column < patch.columns; ++column)
          write_numbers(of_row + column * sums_of_tile, places, patch.block + column);
      } else if (patch.columns == 2) {
        write_two_blocks(of_row, places, patch.block);
      } else {
        write_block(of_row, places, patch.block);
      }
    }
  }

  void write_block(const int32_t* sums, const int32_t* places, int64_t block) {
    const Finish<adds> finish(product_, sums, block);
    for (int row = 0; row < product_.rows; row += 4) {
      const int64_t first = at(places[row], block), second = at(places[row + 1], block);
      const int64_t third = at(places[row + 2], block), fourth = at(places[row + 3], block);
      const __m512i codes = rounding_(finish(row, first), finish(row + 1, second),
                                      finish(row + 2, third), finish(row + 3, fourth));
      const __mmask16 there = finish.there();
      _mm_mask_storeu_epi8(to(places[row], first), there, _mm512_castsi512_si128(codes));
      _mm_mask_storeu_epi8(to(places[row + 1], second), there, _mm512_extracti32x4_epi32(codes, 1));
      _mm_mask_storeu_epi8(to(places[row + 2], third), there, _mm512_extracti32x4_epi32(codes, 2));
      _mm_mask_storeu_epi8(to(places[row + 3], fourth), there, _mm512_extracti32x4_epi32(codes, 3));
    }
  }

  void write_two_blocks(const int32_t* sums, const int32_t* places, int64_t block) {
    const Finish<adds> left(product_, sums, block), right(product_, sums + sums_of_tile, block + 1);
    const __mmask32 there = _mm512_kunpackw(right.there(), left.there());
    for (int row = 0; row < product_.rows; row += 2) {
      const int64_t upper = at(places[row], block), lower = at(places[row + 1], block);
      const __m512i codes = rounding_(left(row, upper), right(row, upper + channels),
                                      left(row + 1, lower), right(row + 1, lower + channels));
      _mm256_mask_storeu_epi8(to(places[row], upper), there, _mm512_castsi512_si256(codes));
      _mm256_mask_storeu_epi8(to(places[row + 1], lower), there,
                              _mm512_extracti64x4_epi64(codes, 1));
    }
  }

  void write_numbers(const int32_t* sums, const int32_t* places, int64_t block) {
    const Finish<adds> finish(product_, sums, block);
    const __m512 least = _mm512_set1_ps(product_.relu ? 0.0f : -__builtin_inff());
    for (int row = 0; row < product_.rows; ++row) {
      if (places[row] < 0) continue;
      const int64_t first = at(places[row], block);
      _mm512_mask_storeu_ps(product_.numbers + first, finish.there(),
                            _mm512_max_ps(finish(row, first), least));
    }
  }

  /// Of a pixel without an output some other one's, whose addend may be read.
  int64_t at(int32_t place, int64_t block) const {
    return (place < 0 ? 0 : place) * product_.out_channels + block * channels;
  }
  uint8_t* to(int32_t place, int64_t at) { return place < 0 ? nowhere_ : product_.codes + at; }

  const Product product_;
  const Rounding rounding_;
  Patch last_{};
  int started_ = 0;
  Sums sums_[2];
  uint8_t nowhere_[64];
};

inline int at_most(int64_t count, int most) {
  return count < most ? static_cast<int>(count) : most;
}

/// What is larger, pixels or weights, is read once.
template <bool to_codes, bool adds>
void compute_all(const Product& product) {
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

}  // namespace

void multiply(const Product& product) {
  const tiles::Scope scope(tiles::Instructions::amx_bf16, product.rows);
  const bool to_codes = product.codes != nullptr, adds = product.addend != nullptr;
  if (to_codes && adds) compute_all<true, true>(product);
  if (to_codes && !adds) compute_all<true, false>(product);
  if (!to_codes && adds) compute_all<false, true>(product);
  if (!to_codes && !adds) compute_all<false, false>(product);
}

}  // namespace composer::code_tiles

#endif

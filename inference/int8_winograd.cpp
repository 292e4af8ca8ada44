#include "inference/int8_winograd.h"

#include "base/simd.h"

#ifdef COMPOSER_X86

#include "inference/int8_outputs.h"

namespace composer::int8_winograd {
namespace {

using int8_amx::channels;

constexpr int64_t side = tile_size + 2;
constexpr int64_t pairs = chunk / 2;
constexpr int64_t weight_step = panel * 2;  ///< numbers of the weights of two input channels
constexpr int64_t value_size = rows * chunk;
constexpr int64_t line_bytes = 64;

inline __m512i add(__m512i a, __m512i b) { return _mm512_add_epi32(a, b); }
inline __m512i subtract(__m512i a, __m512i b) { return _mm512_sub_epi32(a, b); }
template <int bits>
inline __m512i shifted(__m512i value) {
  return _mm512_slli_epi32(value, bits);
}

/// B' d of a row or column d.
inline void transform_pixels(const __m512i (&d)[side], __m512i (&to)[side]) {
  const auto plus = [](__m512i a, __m512i b) { return _mm512_add_epi16(a, b); };
  const auto minus = [](__m512i a, __m512i b) { return _mm512_sub_epi16(a, b); };
  const auto four_times = [](__m512i value) { return _mm512_slli_epi16(value, 2); };
  const __m512i even = minus(d[4], four_times(d[2]));
  const __m512i odd = minus(d[3], four_times(d[1]));
  const __m512i difference = minus(d[3], d[1]);
  const __m512i even2 = minus(d[4], d[2]), odd2 = plus(difference, difference);
  to[0] = plus(four_times(d[0]), minus(even, d[2]));
  to[1] = plus(even, odd);
  to[2] = minus(even, odd);
  to[3] = plus(even2, odd2);
  to[4] = minus(even2, odd2);
  to[5] = minus(minus(d[5], d[3]), four_times(difference));
}

/// A' m of a row or column m, times 24, 12, 6 and 6.
inline void transform_sums(const __m512i (&m)[side], __m512i (&to)[tile_size]) {
  const __m512i sum = add(m[1], m[2]), sum2 = add(m[3], m[4]);
  const __m512i difference = subtract(m[1], m[2]), difference2 = subtract(m[3], m[4]);
  to[0] = add(m[0], subtract(sum2, shifted<2>(sum)));
  to[1] = subtract(difference2, shifted<1>(difference));
  to[2] = subtract(sum2, sum);
  to[3] = add(subtract(m[5], difference), shifted<1>(difference2));
}

/// Pointers to the pixels of a tile, row by row; each pixel is the codes of all channels.
struct Pixels {
  const uint8_t* of[side * side];
};

/// B' d B of the channels from `channel` on that `there` selects.
inline void transform_chunk(const Pixels& pixels, int64_t channel, __mmask32 there, int64_t apart,
                            int16_t* to) {
  __m512i rows_of[side][side], line[side], transformed[side];
  for (int64_t x = 0; x < side; ++x) {
    for (int64_t y = 0; y < side; ++y)
      line[y] =
          _mm512_cvtepu8_epi16(_mm256_maskz_loadu_epi8(there, pixels.of[y * side + x] + channel));
    transform_pixels(line, transformed);
    for (int64_t y = 0; y < side; ++y) rows_of[y][x] = transformed[y];
  }
  for (const auto& row : rows_of) {
    transform_pixels(row, transformed);
    for (int64_t x = 0; x < side; ++x, to += apart) _mm512_storeu_si512(to, transformed[x]);
  }
}

/// Memory that is prefetched: `lines` cache lines with each chunk.
struct Ahead {
  const char* from;
  int64_t lines;
};

/// The products of the values of `count` tiles with a panel of weights.
template <int count>
void multiply_rows(const int16_t* from, int64_t chunks, const int16_t* weights, Ahead ahead,
                   int32_t* sums) {
  __m512i left[count], right[count];
#pragma GCC unroll 14
  for (int i = 0; i < count; ++i) left[i] = right[i] = _mm512_setzero_si512();
  for (int64_t c = 0; c < chunks; ++c, from += value_size) {
    for (int64_t line = 0; line < ahead.lines; ++line, ahead.from += line_bytes)
      _mm_prefetch(ahead.from, _MM_HINT_T1);
    if (c + 1 < chunks)
#pragma GCC unroll 14
      for (int i = 0; i < count; ++i) _mm_prefetch(from + value_size + i * chunk, _MM_HINT_T0);
    const int16_t* const end = weights + pairs * weight_step;
    for (const int16_t* at = from; weights != end; weights += weight_step, at += 2) {
      const __m512i a = _mm512_loadu_si512(weights);
      const __m512i b = _mm512_loadu_si512(weights + weight_step / 2);
#pragma GCC unroll 14
      for (int i = 0; i < count; ++i) {
        int32_t two;
        __builtin_memcpy(&two, at + i * chunk, sizeof(two));
        const __m512i value = _mm512_set1_epi32(two);
        left[i] = _mm512_dpwssd_epi32(left[i], value, a);
        right[i] = _mm512_dpwssd_epi32(right[i], value, b);
      }
    }
  }
#pragma GCC unroll 14
  for (int i = 0; i < count; ++i, sums += panel) {
    _mm512_store_si512(sums, left[i]);
    _mm512_store_si512(sums + channels, right[i]);
  }
}

using MultiplyRows = void (*)(const int16_t*, int64_t, const int16_t*, Ahead, int32_t*);

constexpr MultiplyRows by_rows[rows]{
    multiply_rows<1>,  multiply_rows<2>,  multiply_rows<3>,  multiply_rows<4>, multiply_rows<5>,
    multiply_rows<6>,  multiply_rows<7>,  multiply_rows<8>,  multiply_rows<9>, multiply_rows<10>,
    multiply_rows<11>, multiply_rows<12>, multiply_rows<13>, multiply_rows<14>};

/// A' m A of a tile's sums m: the sums of the plain convolution.
inline void outputs_of(const int32_t* sums, int64_t apart, __m512i (&to)[tile_size][tile_size]) {
  __m512i rows_of[tile_size][side], line[side], transformed[tile_size];
  for (int64_t x = 0; x < side; ++x) {
    for (int64_t y = 0; y < side; ++y) line[y] = _mm512_load_si512(sums + (y * side + x) * apart);
    transform_sums(line, transformed);
    for (int64_t y = 0; y < tile_size; ++y) rows_of[y][x] = transformed[y];
  }
  constexpr int shifts[tile_size]{3, 2, 1, 1};
  const __m512i ninth = _mm512_set1_epi32(0x38e38e39);
  for (int64_t y = 0; y < tile_size; ++y) {
    transform_sums(rows_of[y], to[y]);
    for (int64_t x = 0; x < tile_size; ++x)
      to[y][x] = _mm512_srai_epi32(_mm512_mullo_epi32(to[y][x], ninth),
                                   static_cast<unsigned>(shifts[y] + shifts[x]));
  }
}

/// Writes the codes of a block of output channels.
template <bool adds>
class Writer {
 public:
  Writer(const WinogradTiles& tiles, const int8_amx::Requantization& layer, int64_t block)
      : tiles_(tiles),
        layer_(layer),
        first_(block * channels),
        start_(_mm512_loadu_si512(layer.start + first_)),
        finish_(layer, nullptr, block),
        rounding_(layer) {}

  void write(const __m512i (&sums)[tile_size][tile_size], int64_t tile) const {
    const WinogradPosition position(tiles_, tile);
    const int64_t line =
        (position.image * tiles_.out_height + position.y) * tiles_.out_width + position.x;
    const int64_t lines = least(tile_size, tiles_.out_height - position.y);
    const int64_t columns = least(tile_size, tiles_.out_width - position.x);
    for (int64_t y = 0; y < lines; ++y) {
      const int64_t at = (line + y * tiles_.out_width) * layer_.out_channels + first_;
      // A pixel outside the output reads the addend of the first pixel.
      const auto apart = [&](int64_t x) { return x < columns ? x * layer_.out_channels : 0; };
      const auto number = [&](int64_t x) {
        return finish_.of(_mm512_add_epi32(start_, sums[y][x]), at + apart(x));
      };
      const __m512i codes = rounding_(number(0), number(1), number(2), number(3));
      store(_mm512_castsi512_si128(codes), at);
      if (columns > 1) store(_mm512_extracti32x4_epi32(codes, 1), at + apart(1));
      if (columns > 2) store(_mm512_extracti32x4_epi32(codes, 2), at + apart(2));
      if (columns > 3) store(_mm512_extracti32x4_epi32(codes, 3), at + apart(3));
    }
  }

 private:
  static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
  void store(__m128i codes, int64_t at) const {
    _mm_mask_storeu_epi8(layer_.codes + at, finish_.there(), codes);
  }

  const WinogradTiles& tiles_;
  const int8_amx::Requantization layer_;
  const int64_t first_;
  const __m512i start_;
  const int8_amx::Finish<adds> finish_;
  const int8_amx::Rounding rounding_;
};

template <bool adds>
void write_outputs(const WinogradBlock& block, const int32_t* sums,
                   const int8_amx::Requantization& layer, int64_t channel_block) {
  const Writer<adds> writer(block.tiles, layer, channel_block);
  __m512i outputs[tile_size][tile_size];
  for (int64_t i = 0; i < block.count; ++i, sums += panel) {
    outputs_of(sums, block.count * panel, outputs);
    writer.write(outputs, block.first + i);
  }
}

}  // namespace

void transform_input(const WinogradBlock& block, const Input& input, int64_t begin, int64_t end,
                     int16_t* to) {
  const int64_t chunks = (input.channels + chunk - 1) / chunk, apart = chunks * value_size;
  for (int64_t index = begin; index < end; ++index) {
    const WinogradPart part(block, index, rows);
    for (int64_t tile = part.begin; tile < part.end; ++tile) {
      Pixels pixels;
      winograd_pixels<side>(block.tiles, block.first + tile, input.from, input.padding,
                            input.channels, pixels.of);
      int16_t* row = to + index * value_count * apart + (tile - part.begin) * chunk;
      for (int64_t channel = 0; channel < input.channels; channel += chunk, row += value_size) {
        const int64_t left = input.channels - channel;
        const auto there = static_cast<__mmask32>(left < chunk ? (1U << left) - 1 : ~0U);
        transform_chunk(pixels, channel, there, apart, row);
      }
    }
  }
}

void multiply(const WinogradBlock& block, const Factors& factors, int32_t* sums) {
  const int64_t parts = WinogradPart::count(block, rows), chunks = factors.chunks;
  const int64_t size = chunks * pairs * weight_step;
  const int64_t bytes = size * static_cast<int64_t>(sizeof(int16_t));
  const int64_t lines = bytes / line_bytes / chunks;
  const int16_t* weights = factors.weights;
  for (int64_t k = 0; k < value_count; ++k, weights += size, sums += block.count * panel) {
    const bool prefetches = (k + 2) * bytes <= factors.prefetched;
    for (int64_t index = 0; index < parts; ++index) {
      const WinogradPart part(block, index, rows);
      Ahead ahead{};
      if (prefetches) {
        // Each part prefetches its share of the next value's weights.
        const int64_t line = index * lines / parts;
        ahead = {reinterpret_cast<const char*>(weights + size) + line * chunks * line_bytes,
                 (index + 1) * lines / parts - line};
      }
      by_rows[part.end - part.begin - 1](
          factors.values + (index * value_count + k) * chunks * value_size, chunks, weights, ahead,
          sums + part.begin * panel);
    }
  }
}

void transform_output(const WinogradBlock& block, const int32_t* sums,
                      const int8_amx::Requantization& layer, int64_t index) {
  constexpr int64_t blocks = panel / channels;
  for (int64_t i = index * blocks; i < (index + 1) * blocks && i * channels < layer.out_channels;
       ++i, sums += channels) {
    if (layer.addend != nullptr)
      write_outputs<true>(block, sums, layer, i);
    else
      write_outputs<false>(block, sums, layer, i);
  }
}

}  // namespace composer::int8_winograd

#endif

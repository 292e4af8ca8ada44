#include "inference/winograd_simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "inference/winograd_simd.cpp"
#include "hwy/foreach_target.h"

// After foreach_target.h
#include <algorithm>
#include <array>
#include <cstring>
#include <numbers>
#include <utility>

#include "base/vectors_inl.h"

HWY_BEFORE_NAMESPACE();
namespace composer::HWY_NAMESPACE {
namespace {

#if COMPOSER_HAS_VECTORS

using Tag = hn::ScalableTag<float>;
using Vector = hn::VFromD<Tag>;

constexpr auto lanes = static_cast<int64_t>(hn::MaxLanes(Tag()));
constexpr int64_t panel = 2 * lanes;
/// Most tiles of a part: the registers hold two sums per tile and three factors.
constexpr int64_t most_rows = HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64 ? 12 : 6;

HWY_INLINE Vector load_part(const float* from, int64_t n) {
  if (n >= lanes) return hn::LoadU(Tag(), from);
  HWY_ALIGN float all[lanes] = {};
  std::memcpy(all, from, static_cast<size_t>(n) * sizeof(float));
  return hn::Load(Tag(), all);
}

HWY_INLINE void store_part(Vector v, int64_t n, float* to) {
  if (n >= lanes) return hn::StoreU(v, Tag(), to);
  HWY_ALIGN float all[lanes];
  hn::Store(v, Tag(), all);
  std::memcpy(to, all, static_cast<size_t>(n) * sizeof(float));
}

/// Floats of one value of all tiles of a part, in one chunk.
constexpr int64_t value_size = most_rows * winograd_chunk;

/// The transforms of one row or column: B' d of pixels d, A' m of sums m.
template <size_t size>
struct Algorithm;

template <>
struct Algorithm<2> {
  static HWY_INLINE void transform_pixels(const Vector (&d)[4], Vector (&values)[4]) {
    values[0] = hn::Sub(d[0], d[2]);
    values[1] = hn::Add(d[1], d[2]);
    values[2] = hn::Sub(d[2], d[1]);
    values[3] = hn::Sub(d[1], d[3]);
  }
  static HWY_INLINE void transform_sums(const Vector (&m)[4], Vector (&pixels)[2]) {
    pixels[0] = hn::Add(hn::Add(m[0], m[1]), m[2]);
    pixels[1] = hn::Sub(hn::Sub(m[1], m[2]), m[3]);
  }
};

template <>
struct Algorithm<4> {
  static constexpr float sqrt2 = std::numbers::sqrt2_v<float>;

  static HWY_INLINE void transform_pixels(const Vector (&d)[6], Vector (&values)[6]) {
    const Tag f;
    const auto half = hn::Set(f, 0.5F), two = hn::Set(f, 2.0F), more = hn::Set(f, 2.5F);
    values[0] = hn::NegMulAdd(more, d[2], hn::Add(d[0], d[4]));
    values[5] = hn::NegMulAdd(more, d[3], hn::Add(d[1], d[5]));
    const auto even = hn::NegMulAdd(two, d[2], d[4]), odd = hn::NegMulAdd(two, d[1], d[3]);
    values[1] = hn::MulAdd(hn::Set(f, sqrt2 / 2), odd, even);
    values[2] = hn::NegMulAdd(hn::Set(f, sqrt2 / 2), odd, even);
    const auto even2 = hn::NegMulAdd(half, d[2], d[4]), odd2 = hn::NegMulAdd(half, d[1], d[3]);
    values[3] = hn::MulAdd(hn::Set(f, sqrt2), odd2, even2);
    values[4] = hn::NegMulAdd(hn::Set(f, sqrt2), odd2, even2);
  }
  static HWY_INLINE void transform_sums(const Vector (&m)[6], Vector (&pixels)[4]) {
    const Tag f;
    const auto sum = hn::Add(m[1], m[2]), sum2 = hn::Add(m[3], m[4]);
    const auto difference = hn::Sub(m[1], m[2]), difference2 = hn::Sub(m[3], m[4]);
    pixels[0] = hn::Add(m[0], hn::Add(sum, sum2));
    pixels[1] =
        hn::MulAdd(hn::Set(f, sqrt2 / 2), difference, hn::Mul(hn::Set(f, sqrt2), difference2));
    pixels[2] = hn::MulAdd(hn::Set(f, 0.5F), sum, hn::Mul(hn::Set(f, 2.0F), sum2));
    pixels[3] = hn::MulAdd(hn::Set(f, sqrt2 / 4), difference,
                           hn::MulAdd(hn::Set(f, 2 * sqrt2), difference2, m[5]));
  }
};

/// The side of a tile's input, in pixels.
template <size_t size>
constexpr size_t side = size + 2;

/// A tile's pixels, row by row.
template <size_t size>
using Pixels = std::array<const float*, side<size> * side<size>>;

/// B' d B of pixels d, for n channels from `channel` on.
template <size_t size>
HWY_INLINE void transform_pixels(const Pixels<size>& pixels, int64_t channel, int64_t n,
                                 int64_t apart, float* to) {
  Vector rows[side<size>][side<size>], line[side<size>], values[side<size>];
  for (size_t x = 0; x < side<size>; ++x) {
    for (size_t y = 0; y < side<size>; ++y)
      line[y] = load_part(pixels[y * side<size> + x] + channel, n);
    Algorithm<size>::transform_pixels(line, values);
    for (size_t y = 0; y < side<size>; ++y) rows[y][x] = values[y];
  }
  for (const auto& row : rows) {
    Algorithm<size>::transform_pixels(row, values);
    for (size_t x = 0; x < side<size>; ++x, to += apart) hn::StoreU(values[x], Tag(), to);
  }
}

template <size_t size>
void transform_input(const WinogradBlock& block, const WinogradInput& input, int64_t begin,
                     int64_t end, float* to) {
  const int64_t chunks = (input.channels + winograd_chunk - 1) / winograd_chunk;
  const int64_t apart = chunks * value_size, of_part = block.tiles.values() * apart;
  for (int64_t index = begin; index < end; ++index) {
    const WinogradPart part(block, index, most_rows);
    for (int64_t tile = part.begin; tile < part.end; ++tile) {
      Pixels<size> pixels;
      winograd_pixels<side<size>>(block.tiles, block.first + tile, input.from, input.zeros,
                                  input.channels, pixels.data());
      float* row = to + index * of_part + (tile - part.begin) * winograd_chunk;
      for (int64_t c = 0; c < chunks * winograd_chunk; c += winograd_chunk, row += value_size)
        for (int64_t lane = 0; lane < winograd_chunk; lane += lanes)
          transform_pixels<size>(pixels, c + lane, std::max<int64_t>(input.channels - c - lane, 0),
                                 apart, row + lane);
    }
  }
}

/// Memory that is prefetched: `lines` cache lines with each chunk.
struct Ahead {
  const float* from;
  int64_t lines;  ///< cache lines of 64 bytes
};

/// The products of the values of `rows` tiles with a panel of weights.
template <size_t rows>
void multiply_rows(const float* values, int64_t chunks, const float* weights, Ahead ahead,
                   float* sums) {
  const Tag d;
  Vector left[rows], right[rows];
  for (size_t i = 0; i < rows; ++i) left[i] = right[i] = hn::Zero(d);
  for (int64_t chunk = 0; chunk < chunks; ++chunk, values += value_size) {
    for (int64_t line = 0; line < ahead.lines; ++line, ahead.from += 16)
      __builtin_prefetch(ahead.from, 0, 2);
    if (chunk + 1 < chunks)
#pragma GCC unroll 12
      for (size_t i = 0; i < rows; ++i)
        __builtin_prefetch(values + value_size + i * winograd_chunk);
    for (int64_t k = 0; k < winograd_chunk; ++k, weights += panel) {
      const auto a = hn::LoadU(d, weights), b = hn::LoadU(d, weights + lanes);
#pragma GCC unroll 12
      for (size_t i = 0; i < rows; ++i) {
        const auto value = hn::Set(d, values[static_cast<int64_t>(i) * winograd_chunk + k]);
        left[i] = hn::MulAdd(value, a, left[i]);
        right[i] = hn::MulAdd(value, b, right[i]);
      }
    }
  }
#pragma GCC unroll 12
  for (size_t i = 0; i < rows; ++i, sums += panel) {
    hn::StoreU(left[i], d, sums);
    hn::StoreU(right[i], d, sums + lanes);
  }
}

using MultiplyRows = decltype(&multiply_rows<1>);

template <size_t... less>
constexpr std::array<MultiplyRows, sizeof...(less)> by_rows(std::index_sequence<less...>) {
  return {&multiply_rows<less + 1>...};
}

void multiply(const WinogradBlock& block, const WinogradFactors& factors, float* sums) {
  static constexpr auto kernels = by_rows(std::make_index_sequence<most_rows>());
  const int64_t parts = WinogradPart::count(block, most_rows), chunks = factors.chunks;
  const int64_t size = chunks * winograd_chunk * panel;
  const auto* weights = factors.weights;
  const int64_t values = block.tiles.values();
  for (int64_t k = 0; k < values; ++k, weights += size, sums += block.count * panel) {
    const bool prefetches = (k + 2) * size <= factors.prefetched;
    for (int64_t index = 0; index < parts; ++index) {
      const WinogradPart part(block, index, most_rows);
      Ahead ahead{};
      if (prefetches) {
        // Each part prefetches its share of the next weights, which are `panel` lines a chunk.
        const int64_t line = index * panel / parts;
        ahead = {weights + size + line * chunks * winograd_chunk,
                 (index + 1) * panel / parts - line};
      }
      kernels[static_cast<size_t>(part.end - part.begin - 1)](
          factors.values + (index * values + k) * chunks * value_size, chunks, weights, ahead,
          sums + part.begin * panel);
    }
  }
}

/// A' m A of a tile's values m.
template <size_t size>
HWY_INLINE void transform_sums(const float* sums, int64_t apart, Vector (&pixels)[size][size]) {
  Vector rows[size][side<size>], line[side<size>], values[size];
  for (size_t x = 0; x < side<size>; ++x) {
    for (size_t y = 0; y < side<size>; ++y)
      line[y] = hn::LoadU(Tag(), sums + static_cast<int64_t>(y * side<size> + x) * apart);
    Algorithm<size>::transform_sums(line, values);
    for (size_t y = 0; y < size; ++y) rows[y][x] = values[y];
  }
  for (size_t y = 0; y < size; ++y) Algorithm<size>::transform_sums(rows[y], pixels[y]);
}

template <size_t size>
void transform_output(const WinogradBlock& block, const float* sums, const WinogradOutput& output) {
  const auto& tiles = block.tiles;
  for (int64_t i = 0; i < block.count; ++i, sums += panel) {
    const WinogradPosition position(tiles, block.first + i);
    const auto rows = std::min<int64_t>(size, tiles.out_height - position.y);
    const auto columns = std::min<int64_t>(size, tiles.out_width - position.x);
    const int64_t first =
        (position.image * tiles.out_height + position.y) * tiles.out_width + position.x;
    for (int64_t c = 0; c < output.count; c += lanes) {
      Vector pixels[size][size];
      transform_sums<size>(sums + c, block.count * panel, pixels);
      const auto bias = hn::LoadU(Tag(), output.bias + c);
      const int64_t n = output.count - c;
      for (int64_t y = 0; y < rows; ++y)
        for (int64_t x = 0; x < columns; ++x) {
          const int64_t at = (first + y * tiles.out_width + x) * output.channels + c;
          auto value = hn::Add(pixels[y][x], bias);
          if (output.addend != nullptr) value = hn::Add(value, load_part(output.addend + at, n));
          // A NaN stays.
          if (output.relu) value = hn::IfThenZeroElse(hn::Lt(value, hn::Zero(Tag())), value);
          store_part(value, n, output.to + at);
        }
    }
  }
}

template <size_t size>
constexpr WinogradKernels kernels_of{panel, most_rows, transform_input<size>, multiply,
                                     transform_output<size>};

const WinogradKernels& kernels_here(int64_t size) {
  return size == 4 ? kernels_of<4> : kernels_of<2>;
}

#else

const WinogradKernels& kernels_here(int64_t) {
  static constexpr WinogradKernels kernels{};
  return kernels;
}

#endif

}  // namespace
}  // namespace composer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace composer {

HWY_EXPORT(kernels_here);

const WinogradKernels& winograd_kernels(int64_t size) {
  return HWY_DYNAMIC_DISPATCH(kernels_here)(size);
}

}  // namespace composer
#endif

#include "inference/winograd_simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "inference/winograd_simd.cpp"
#include "hwy/foreach_target.h"

// After foreach_target.h
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "composer/vectors_inl.h"

HWY_BEFORE_NAMESPACE();
namespace composer::HWY_NAMESPACE {
namespace {

#if COMPOSER_HAS_VECTORS

using Tag = hn::ScalableTag<float>;
using Vector = hn::VFromD<Tag>;

constexpr auto lanes = static_cast<int64_t>(hn::MaxLanes(Tag()));
constexpr int64_t panel = 2 * lanes;
/// Of a panel, as many as there are registers for: two sums each, and three for the factors.
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

/// A tile's output pixels' place.
struct Place {
  int64_t image, y, x;

  Place(const WinogradTiles& tiles, int64_t tile)
      : image(tile / tiles.of_image()),
        y(tile % tiles.of_image() / tiles.columns() * 2),
        x(tile % tiles.columns() * 2) {}
};

/// Tiles of a block that are multiplied together.
struct Part {
  int64_t begin, end;

  static int64_t count(const WinogradBlock& block) {
    return (block.count + most_rows - 1) / most_rows;
  }
  Part(const WinogradBlock& block, int64_t index)
      : begin(index * block.count / count(block)), end((index + 1) * block.count / count(block)) {}
};

/// Floats of one of the 16 values of a part's tiles, in one chunk.
constexpr int64_t value_size = most_rows * winograd_chunk;

/// A tile's pixels, row by row.
using Pixels = std::array<const float*, winograd_values>;

HWY_INLINE Pixels pixels_of(const WinogradTiles& tiles, int64_t tile, const WinogradInput& input) {
  const Place place(tiles, tile);
  Pixels pixels;
  for (int64_t k = 0; k < winograd_values; ++k) {
    const int64_t y = place.y - tiles.padding_y + k / 4, x = place.x - tiles.padding_x + k % 4;
    const bool inside = y >= 0 && y < tiles.height && x >= 0 && x < tiles.width;
    const int64_t pixel = (place.image * tiles.height + y) * tiles.width + x;
    pixels[static_cast<size_t>(k)] = inside ? input.from + pixel * input.channels : input.zeros;
  }
  return pixels;
}

/// B' d B of pixels d, of n channels from `channel` on.
HWY_INLINE void transform_pixels(const Pixels& pixels, int64_t channel, int64_t n, int64_t apart,
                                 float* to) {
  Vector rows[4][4];
  for (size_t x = 0; x < 4; ++x) {
    const auto a = load_part(pixels[x] + channel, n), b = load_part(pixels[4 + x] + channel, n);
    const auto c = load_part(pixels[8 + x] + channel, n);
    const auto d = load_part(pixels[12 + x] + channel, n);
    rows[0][x] = hn::Sub(a, c);
    rows[1][x] = hn::Add(b, c);
    rows[2][x] = hn::Sub(c, b);
    rows[3][x] = hn::Sub(b, d);
  }
  for (const auto& [a, b, c, d] : rows) {
    hn::StoreU(hn::Sub(a, c), Tag(), to);
    hn::StoreU(hn::Add(b, c), Tag(), to + apart);
    hn::StoreU(hn::Sub(c, b), Tag(), to + 2 * apart);
    hn::StoreU(hn::Sub(b, d), Tag(), to + 3 * apart);
    to += 4 * apart;
  }
}

void transform_input(const WinogradBlock& block, const WinogradInput& input, float* to) {
  const int64_t parts = Part::count(block);
  const int64_t chunks = (input.channels + winograd_chunk - 1) / winograd_chunk;
  const int64_t apart = chunks * value_size;
  for (int64_t index = 0; index < parts; ++index, to += winograd_values * apart) {
    const Part part(block, index);
    for (int64_t tile = part.begin; tile < part.end; ++tile) {
      const auto pixels = pixels_of(block.tiles, block.first + tile, input);
      float* row = to + (tile - part.begin) * winograd_chunk;
      for (int64_t c = 0; c < chunks * winograd_chunk; c += winograd_chunk, row += value_size)
        for (int64_t lane = 0; lane < winograd_chunk; lane += lanes)
          transform_pixels(pixels, c + lane, std::max<int64_t>(input.channels - c - lane, 0), apart,
                           row + lane);
    }
  }
}

/// What is read later, so much for each chunk.
struct Ahead {
  const float* from;
  int64_t lines;  ///< of 64 bytes
};

/// The products of so many tiles' values with a panel of weights.
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
  const int64_t parts = Part::count(block), chunks = factors.chunks;
  const int64_t size = chunks * winograd_chunk * panel;
  const auto* weights = factors.weights;
  for (int64_t k = 0; k < winograd_values; ++k, weights += size, sums += block.count * panel) {
    const bool prefetches = (k + 2) * size <= factors.prefetched;
    for (int64_t index = 0; index < parts; ++index) {
      const Part part(block, index);
      Ahead ahead{};
      if (prefetches) {
        // Each part takes its share of the next weights, which are `panel` lines a chunk.
        const int64_t line = index * panel / parts;
        ahead = {weights + size + line * chunks * winograd_chunk,
                 (index + 1) * panel / parts - line};
      }
      kernels[static_cast<size_t>(part.end - part.begin - 1)](
          factors.values + (index * winograd_values + k) * chunks * value_size, chunks, weights,
          ahead, sums + part.begin * panel);
    }
  }
}

/// A' m A of a tile's values m, row by row.
HWY_INLINE void transform_sums(const float* sums, int64_t apart, Vector (&pixels)[4]) {
  Vector upper[4], lower[4];
  for (int64_t x = 0; x < 4; ++x) {
    const auto a = hn::LoadU(Tag(), sums + x * apart);
    const auto b = hn::LoadU(Tag(), sums + (4 + x) * apart);
    const auto c = hn::LoadU(Tag(), sums + (8 + x) * apart);
    const auto d = hn::LoadU(Tag(), sums + (12 + x) * apart);
    upper[x] = hn::Add(hn::Add(a, b), c);
    lower[x] = hn::Sub(hn::Sub(b, c), d);
  }
  pixels[0] = hn::Add(hn::Add(upper[0], upper[1]), upper[2]);
  pixels[1] = hn::Sub(hn::Sub(upper[1], upper[2]), upper[3]);
  pixels[2] = hn::Add(hn::Add(lower[0], lower[1]), lower[2]);
  pixels[3] = hn::Sub(hn::Sub(lower[1], lower[2]), lower[3]);
}

void transform_output(const WinogradBlock& block, const float* sums, const WinogradOutput& output) {
  const auto& tiles = block.tiles;
  for (int64_t i = 0; i < block.count; ++i, sums += panel) {
    const Place place(tiles, block.first + i);
    for (int64_t c = 0; c < output.count; c += lanes) {
      Vector pixels[4];
      transform_sums(sums + c, block.count * panel, pixels);
      const auto bias = hn::LoadU(Tag(), output.bias + c);
      const int64_t n = output.count - c;
#pragma GCC unroll 4
      for (int64_t k = 0; k < 4; ++k) {
        const int64_t y = place.y + k / 2, x = place.x + k % 2;
        if (y >= tiles.out_height || x >= tiles.out_width) continue;
        const int64_t at =
            ((place.image * tiles.out_height + y) * tiles.out_width + x) * output.channels + c;
        auto value = hn::Add(pixels[k], bias);
        if (output.addend != nullptr) value = hn::Add(value, load_part(output.addend + at, n));
        // A NaN stays.
        if (output.relu) value = hn::IfThenZeroElse(hn::Lt(value, hn::Zero(Tag())), value);
        store_part(value, n, output.to + at);
      }
    }
  }
}

const WinogradKernels& kernels_here() {
  static constexpr WinogradKernels kernels{panel, most_rows, transform_input, multiply,
                                           transform_output};
  return kernels;
}

#else

const WinogradKernels& kernels_here() {
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

const WinogradKernels& winograd_kernels() { return HWY_DYNAMIC_DISPATCH(kernels_here)(); }

}  // namespace composer
#endif

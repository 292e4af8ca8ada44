#include "data/pixels/copy.h"

#include <algorithm>
#include <cstring>

#include "data/pixels/simd.h"

#ifdef COMPOSER_X86
// False alarms of GCC 12 within its own header (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#endif

namespace composer {
namespace {

/// Rows mirrored pixel by pixel. Strides in bytes; in and out do not overlap.
struct Rows {
  const uint8_t* in;
  int64_t in_stride;
  uint8_t* out;
  int64_t out_stride;
  int64_t count, width;
};

template <int kChannels>
void mirror_pixels(const uint8_t* in, int64_t width, uint8_t* out) {
  uint8_t* to = out + (width - 1) * kChannels;
  for (int64_t x = 0; x < width; ++x, in += kChannels, to -= kChannels) {
    for (int c = 0; c < kChannels; ++c) to[c] = in[c];
  }
}

template <int kChannels>
void mirror_scalar(Rows r) {
  for (; r.count > 0; --r.count, r.in += r.in_stride, r.out += r.out_stride) {
    mirror_pixels<kChannels>(r.in, r.width, r.out);
  }
}

#ifdef COMPOSER_X86

/// Where byte i of `bytes` mirrored ones comes from.
template <int kChannels>
constexpr std::array<uint8_t, 64> mirror_order(int bytes) {
  std::array<uint8_t, 64> order{};
  for (int i = 0; i < bytes; ++i) {
    order[static_cast<size_t>(i)] =
        static_cast<uint8_t>(bytes - kChannels - i / kChannels * kChannels + i % kChannels);
  }
  return order;
}

template <int kChannels>
__attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi"))) void mirror_avx512(Rows r) {
  constexpr int64_t kBlock = 64 / kChannels * kChannels;
  static constexpr auto kOrder = mirror_order<kChannels>(kBlock);
  constexpr __mmask64 kWhole = ~0ULL >> (64 - kBlock);
  const __m512i order = _mm512_loadu_si512(kOrder.data());
  const int64_t bytes = r.width * kChannels, rest = bytes % kBlock;
  const __mmask64 part = rest == 0 ? 0 : ~0ULL >> (64 - rest);
  const __m512i part_order =
      _mm512_sub_epi8(order, _mm512_set1_epi8(static_cast<char>(kBlock - rest)));
  for (; r.count > 0; --r.count, r.in += r.in_stride, r.out += r.out_stride) {
    uint8_t* to = r.out;
    for (int64_t at = bytes - kBlock; at >= 0; at -= kBlock, to += kBlock) {
      const __m512i pixels = _mm512_maskz_loadu_epi8(kWhole, r.in + at);
      _mm512_mask_storeu_epi8(to, kWhole, _mm512_permutexvar_epi8(order, pixels));
    }
    const __m512i pixels = _mm512_maskz_loadu_epi8(part, r.in);
    _mm512_mask_storeu_epi8(to, part, _mm512_permutexvar_epi8(part_order, pixels));
  }
}

/// Each vector is stored whole: what it has beyond its block is overwritten by the next one, and
/// the row's last pixels are copied singly.
template <int kChannels>
__attribute__((target("avx2"))) void mirror_avx2(Rows r) {
  constexpr int64_t kPixels = 16 / kChannels, kBlock = kPixels * kChannels;
  static constexpr auto kOrder = mirror_order<kChannels>(kBlock);
  // A block is loaded from as many bytes earlier as it is short of a vector.
  const __m128i order = _mm_add_epi8(
      _mm_loadu_si128(reinterpret_cast<const __m128i*>(kOrder.data())), _mm_set1_epi8(16 - kBlock));
  for (; r.count > 0; --r.count, r.in += r.in_stride, r.out += r.out_stride) {
    uint8_t* to = r.out;
    int64_t left = r.width;
    for (; left > kPixels; left -= kPixels, to += kBlock) {
      const auto* from =
          reinterpret_cast<const __m128i*>(r.in + (left - kPixels) * kChannels - (16 - kBlock));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                       _mm_shuffle_epi8(_mm_loadu_si128(from), order));
    }
    mirror_pixels<kChannels>(r.in, left, to);
  }
}

#endif

template <int kChannels>
void mirror(const Rows& rows) {
#ifdef COMPOSER_X86
  if (simd() == Simd::avx512) return mirror_avx512<kChannels>(rows);
  if (simd() == Simd::avx2) return mirror_avx2<kChannels>(rows);
#endif
  mirror_scalar<kChannels>(rows);
}

void copy_rows(const ImageView& image, bool flip, uint8_t* out, int64_t out_stride) {
  const Rows rows{image.pixels, image.stride, out, out_stride, image.height, image.width};
  const int64_t bytes = image.width * image.channels;
  if (flip) return image.channels == 3 ? mirror<3>(rows) : mirror<1>(rows);
  if (image.stride == bytes && out_stride == bytes) {
    std::memcpy(out, image.pixels, static_cast<size_t>(image.height * bytes));
    return;
  }
  for (int64_t y = 0; y < image.height; ++y, out += out_stride) {
    std::memcpy(out, image.row(y), static_cast<size_t>(bytes));
  }
}

/// Where position i of an image of that length comes from when it is mirrored at its outermost
/// pixels again and again.
int64_t reflected(int64_t i, int64_t length) {
  if (length == 1) return 0;
  const int64_t period = 2 * (length - 1);
  const int64_t inside = ((i % period) + period) % period;
  return inside < length ? inside : period - inside;
}

void fill_pixels(const std::array<uint8_t, 3>& fill, int64_t pixels, int64_t channels,
                 uint8_t* out) {
  if (channels == 1 || (fill[0] == fill[1] && fill[1] == fill[2])) {
    std::memset(out, fill[0], static_cast<size_t>(pixels * channels));
    return;
  }
  for (int64_t x = 0; x < pixels; ++x, out += 3) std::memcpy(out, fill.data(), 3);
}

/// The positions of a window that fall on the image: [begin, end), counted from the window's start.
struct Covered {
  int64_t begin, end;
};
Covered covered(int64_t start, int64_t length, int64_t image) {
  const int64_t begin = std::clamp<int64_t>(-start, 0, length);
  return {begin, std::clamp<int64_t>(image - start, begin, length)};
}

/// The columns of an output row that do not lie on the image.
void reflect_columns(const uint8_t* row, const ImageView& image, const Box& window,
                     const Covered& columns, bool flip, uint8_t* out) {
  const int64_t c = image.channels;
  for (int64_t x = 0; x < window.width; ++x) {
    if (x == columns.begin) x = columns.end;
    if (x == window.width) break;
    const uint8_t* from = row + reflected(window.left + x, image.width) * c;
    std::memcpy(out + (flip ? window.width - 1 - x : x) * c, from, static_cast<size_t>(c));
  }
}

}  // namespace

void copy_pixels(const ImageView& image, bool flip, uint8_t* out) {
  copy_rows(image, flip, out, image.width * image.channels);
}

void copy_window(const ImageView& image, const Box& window, const Border& border, bool flip,
                 uint8_t* out) {
  const int64_t c = image.channels, row_bytes = window.width * c;
  const Covered rows = covered(window.top, window.height, image.height);
  const Covered columns = covered(window.left, window.width, image.width);
  const int64_t width = columns.end - columns.begin;
  const int64_t before = flip ? window.width - columns.end : columns.begin;
  const int64_t after = window.width - before - width;
  if (width > 0 && rows.end > rows.begin) {
    copy_rows(image.crop(window.top + rows.begin, window.left + columns.begin,
                         rows.end - rows.begin, width),
              flip, out + rows.begin * row_bytes + before * c, row_bytes);
  }
  if (border.reflect) {
    for (int64_t y = rows.begin; y < rows.end && width < window.width; ++y) {
      reflect_columns(image.row(window.top + y), image, window, columns, flip, out + y * row_bytes);
    }
    for (int64_t y = 0; y < window.height; ++y) {
      if (y == rows.begin) y = rows.end;
      if (y == window.height) break;
      const Box row{reflected(window.top + y, image.height), window.left, 1, window.width};
      copy_window(image, row, border, flip, out + y * row_bytes);
    }
    return;
  }
  fill_pixels(border.fill, rows.begin * window.width, c, out);
  for (int64_t y = rows.begin; y < rows.end; ++y) {
    uint8_t* row = out + y * row_bytes;
    if (before > 0) fill_pixels(border.fill, before, c, row);
    if (after > 0) fill_pixels(border.fill, after, c, row + (before + width) * c);
  }
  fill_pixels(border.fill, (window.height - rows.end) * window.width, c,
              out + rows.end * row_bytes);
}

}  // namespace composer

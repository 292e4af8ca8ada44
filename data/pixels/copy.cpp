#include "data/pixels/copy.h"

#include <algorithm>
#include <cstring>

#include "data/pixels/mirror_simd.h"

namespace composer {
namespace {

void copy_rows(const ImageView& image, bool flip, uint8_t* out, int64_t out_stride) {
  const int64_t bytes = image.width * image.channels;
  if (flip) {
    return mirror_rows({image.pixels, image.stride, out, out_stride, image.height, image.width},
                       image.channels);
  }
  if (image.stride == bytes && out_stride == bytes) {
    std::memcpy(out, image.pixels, static_cast<size_t>(image.height * bytes));
    return;
  }
  for (int64_t y = 0; y < image.height; ++y, out += out_stride)
    std::memcpy(out, image.row(y), static_cast<size_t>(bytes));
}

/// The source of position i along an axis that is mirrored at its outermost pixels again and again.
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

/// Fills the columns of an output row outside of the image.
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
    for (int64_t y = rows.begin; y < rows.end && width < window.width; ++y)
      reflect_columns(image.row(window.top + y), image, window, columns, flip, out + y * row_bytes);
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

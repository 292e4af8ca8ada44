#include "algorithms/augmentation/image_op.h"

#include <algorithm>
#include <cmath>

#include "algorithms/augmentation/byte_ops.h"
#include "algorithms/augmentation/warp.h"

namespace composer {
namespace {

int64_t values_of(const MutableImage& image) { return image.height * image.width * image.channels; }

/// factor * value + (1 - factor) * other.
bytes::Blend blend_of(double factor) {
  return {static_cast<float>(factor), static_cast<float>(1 - factor)};
}

/// factor * values + added, in float, truncated.
void scale(float factor, float added, const MutableImage& image) {
  bytes::stretch({.factor = {factor, factor, factor}, .added = added}, image.pixels,
                 values_of(image));
}

void contrast(double factor, const MutableImage& image) {
  const int64_t n = image.height * image.width;
  const int64_t sum =
      image.channels == 1 ? bytes::sum_of(image.pixels, n) : bytes::sum_of_greys(image.pixels, n);
  const auto mean = static_cast<float>(sum) / static_cast<float>(n);
  const bytes::Blend by = blend_of(factor);
  scale(by.factor, by.rest * mean, image);
}

/// Blends the inside with its 3x3 mean, where the centre counts five times; the edge stays.
void sharpness(double factor, const MutableImage& image) {
  if (image.height <= 2 || image.width <= 2) return;
  const int64_t c = image.channels, row = image.width * c, n = values_of(image);
  thread_local std::vector<uint8_t> smoothed;
  smoothed.assign(image.pixels, image.pixels + n);
  for (int64_t y = 1; y < image.height - 1; ++y) {
    const uint8_t* const first = image.pixels + y * row + c;
    bytes::smooth(first - row, first, first + row, c, row - 2 * c, smoothed.data() + y * row + c);
  }
  bytes::blend(blend_of(factor), smoothed.data(), image.pixels, n);
}

void autocontrast(const MutableImage& image) {
  bytes::Range range = bytes::range_of(image.pixels, values_of(image));
  if (image.channels == 1) {
    range.least.fill(*std::min_element(range.least.begin(), range.least.end()));
    range.greatest.fill(*std::max_element(range.greatest.begin(), range.greatest.end()));
  }
  bytes::Stretch by;
  for (size_t c = 0; c < 3; ++c) {
    const bool flat = range.least[c] == range.greatest[c];
    by.least[c] = flat ? 0 : range.least[c];
    by.factor[c] = flat ? 1 : 1 / static_cast<float>(range.greatest[c] - range.least[c]) * 255;
  }
  bytes::stretch(by, image.pixels, values_of(image));
}

/// The lookup table that equalizes the histogram of a channel.
bytes::Table equalizing(const std::array<uint32_t, 256>& counts) {
  const auto brightest =
      std::find_if(counts.rbegin(), counts.rend(), [](uint32_t n) { return n > 0; });
  int64_t below = 0, total = 0;
  for (const uint32_t n : counts) total += n;
  const int64_t step = (total - *brightest) / 255;
  bytes::Table table;
  for (size_t v = 0; v < table.size(); ++v) {
    const int64_t level = v == 0      ? 0
                          : step == 0 ? static_cast<int64_t>(v)
                                      : (below + step / 2) / step;
    table[v] = static_cast<uint8_t>(std::min<int64_t>(level, 255));
    below += counts[v];
  }
  return table;
}

void equalize(const MutableImage& image) {
  bytes::Counts counts = bytes::counts_of(image.pixels, values_of(image));
  if (image.channels == 1) {
    for (size_t v = 0; v < 256; ++v) counts[0][v] += counts[1][v] + counts[2][v];
    counts[1] = counts[2] = counts[0];
  }
  bytes::Tables tables;
  for (size_t c = 0; c < 3; ++c) tables[c] = equalizing(counts[c]);
  bytes::map(tables, image.pixels, values_of(image));
}

}  // namespace

void apply(ImageOp op, double magnitude, const MutableImage& image, Interpolation interpolation) {
  const int64_t n = values_of(image);
  if (n == 0) return;
  switch (op) {
    case ImageOp::identity:
      return;
    case ImageOp::shear_x:
    case ImageOp::shear_y:
    case ImageOp::rotate:
      if (magnitude == 0) return;
      return warp(affine_of(op, magnitude, {image.height, image.width}), interpolation, image);
    case ImageOp::translate_x:
      return shift(static_cast<int64_t>(magnitude), 0, image);
    case ImageOp::translate_y:
      return shift(0, static_cast<int64_t>(magnitude), image);
    case ImageOp::brightness:
      return scale(static_cast<float>(1 + magnitude), 0, image);
    case ImageOp::color:
      if (image.channels == 3)
        bytes::blend_greys(blend_of(1 + magnitude), image.pixels, image.height * image.width);
      return;
    case ImageOp::contrast:
      return contrast(1 + magnitude, image);
    case ImageOp::sharpness:
      return sharpness(1 + magnitude, image);
    case ImageOp::posterize:
      return bytes::keep_bits(static_cast<uint8_t>(0xFF << (8 - static_cast<int>(magnitude))),
                              image.pixels, n);
    case ImageOp::solarize:
      if (magnitude <= 255)
        bytes::invert(static_cast<uint8_t>(std::ceil(std::max(magnitude, 0.0))), image.pixels, n);
      return;
    case ImageOp::autocontrast:
      return autocontrast(image);
    case ImageOp::equalize:
      return equalize(image);
    case ImageOp::invert:
      return bytes::invert(0, image.pixels, n);
  }
}

void apply_draw(const Steps& steps, const MutableImage& image) {
  for (const auto& step : steps) apply(step.op, step.magnitude, image, step.interpolation);
}

void apply_draw(const AugMixDraw& draw, const MutableImage& image) {
  const int64_t n = values_of(image);
  thread_local std::vector<float> average;
  thread_local std::vector<uint8_t> changed;
  average.assign(static_cast<size_t>(n), 0);
  for (size_t chain = 0; chain < draw.chains.size(); ++chain) {
    changed.assign(image.pixels, image.pixels + n);
    apply_draw(draw.chains[chain], {changed.data(), image.height, image.width, image.channels});
    bytes::add(static_cast<float>(draw.weights[chain]), changed.data(), average.data(), n);
  }
  bytes::blend({static_cast<float>(1 - draw.mixing), static_cast<float>(draw.mixing)},
               average.data(), image.pixels, n);
}

}  // namespace composer

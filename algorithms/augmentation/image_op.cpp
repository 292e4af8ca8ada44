#include "algorithms/augmentation/image_op.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "algorithms/augmentation/warp.h"

namespace composer {
namespace {

using Table = std::array<uint8_t, 256>;
using Tables = std::array<Table, 3>;  // one a channel; those of missing channels do not matter

int64_t values_of(const MutableImage& image) { return image.height * image.width * image.channels; }

uint8_t truncated(float value) {
  return static_cast<uint8_t>(static_cast<int>(std::min(std::max(value, 0.0f), 255.0f)));
}

/// factor * a + (1 - factor) * b, in float, truncated.
class Blend {
 public:
  explicit Blend(double factor)
      : a_(static_cast<float>(factor)), b_(static_cast<float>(1 - factor)) {}

  uint8_t operator()(float a, float b) const { return truncated(a_ * a + b_ * b); }

 private:
  float a_, b_;
};

template <class F>
Table table_of(F value) {
  Table table;
  for (int v = 0; v < 256; ++v) table[static_cast<size_t>(v)] = value(v);
  return table;
}

void map(const MutableImage& image, const Table& table) {
  uint8_t* const end = image.pixels + values_of(image);
  for (uint8_t* value = image.pixels; value < end; ++value) *value = table[*value];
}

void map(const MutableImage& image, const Tables& tables) {
  if (image.channels == 1) return map(image, tables[0]);
  uint8_t* const end = image.pixels + values_of(image);
  for (uint8_t* pixel = image.pixels; pixel < end; pixel += 3) {
    pixel[0] = tables[0][pixel[0]];
    pixel[1] = tables[1][pixel[1]];
    pixel[2] = tables[2][pixel[2]];
  }
}

int grey(const uint8_t* pixel) {
  return static_cast<int>(0.2989f * static_cast<float>(pixel[0]) +
                          0.587f * static_cast<float>(pixel[1]) +
                          0.114f * static_cast<float>(pixel[2]));
}

void color(double factor, const MutableImage& image) {
  if (image.channels == 1) return;
  const Blend blend(factor);
  const int64_t row = image.width * 3;
  thread_local std::vector<uint8_t> greys;
  greys.resize(static_cast<size_t>(row));
  for (int64_t y = 0; y < image.height; ++y) {
    uint8_t* const pixels = image.pixels + y * row;
    uint8_t* const of_row = greys.data();
    for (int64_t i = 0; i < row; i += 3)
      of_row[i] = of_row[i + 1] = of_row[i + 2] = static_cast<uint8_t>(grey(pixels + i));
    for (int64_t i = 0; i < row; ++i) pixels[i] = blend(pixels[i], of_row[i]);
  }
}

void contrast(double factor, const MutableImage& image) {
  int64_t sum = 0;
  const uint8_t* const end = image.pixels + values_of(image);
  for (const uint8_t* pixel = image.pixels; pixel < end; pixel += image.channels)
    sum += image.channels == 1 ? *pixel : grey(pixel);
  const auto mean = static_cast<float>(sum) / static_cast<float>(image.height * image.width);
  const Blend blend(factor);
  map(image, table_of([&](int v) { return blend(static_cast<float>(v), mean); }));
}

/// The edge blends with itself, the inside with its 3x3 mean in which the centre counts five times.
void sharpness(double factor, const MutableImage& image) {
  if (image.height <= 2 || image.width <= 2) return;
  const Blend blend(factor);
  const int64_t c = image.channels, row = image.width * c;
  thread_local std::vector<uint8_t> from;
  from.assign(image.pixels, image.pixels + values_of(image));
  const auto edge =
      table_of([&](int v) { return blend(static_cast<float>(v), static_cast<float>(v)); });
  for (int64_t y = 0; y < image.height; ++y) {
    const uint8_t *const mid = from.data() + y * row, *const up = mid - row,
                         *const down = mid + row;
    uint8_t* const out = image.pixels + y * row;
    const bool inside = y > 0 && y < image.height - 1;
    const int first = static_cast<int>(inside ? c : row),
              last = static_cast<int>(inside ? row - c : row);
    for (int64_t i = 0; i < first; ++i) out[i] = edge[mid[i]];
    for (int i = first; i < last; ++i) {
      const int sum = up[i - c] + up[i] + up[i + c] + mid[i - c] + 5 * mid[i] + mid[i + c] +
                      down[i - c] + down[i] + down[i + c];
      const int mean = static_cast<int>(static_cast<float>(sum) * (1 / 13.0f) + 0.5f);
      out[i] = blend(mid[i], static_cast<float>(mean));
    }
    for (int64_t i = last; i < row; ++i) out[i] = edge[mid[i]];
  }
}

void autocontrast(const MutableImage& image) {
  constexpr int64_t block = 48;  // a multiple of both numbers of channels
  std::array<uint8_t, block> low, high;
  low.fill(255), high.fill(0);
  const int64_t n = values_of(image);
  for (int64_t start = 0; start < n; start += block) {
    const uint8_t* const at = image.pixels + start;
    const auto length = static_cast<size_t>(std::min(block, n - start));
    const auto take = [&](size_t i) {
      low[i] = std::min(low[i], at[i]);
      high[i] = std::max(high[i], at[i]);
    };
    if (length == block)
      for (size_t i = 0; i < block; ++i) take(i);
    else
      for (size_t i = 0; i < length; ++i) take(i);
  }
  Tables tables;
  for (size_t c = 0; c < static_cast<size_t>(image.channels); ++c) {
    int minimum = 255, maximum = 0;
    for (size_t i = c; i < block; i += static_cast<size_t>(image.channels)) {
      minimum = std::min<int>(minimum, low[i]);
      maximum = std::max<int>(maximum, high[i]);
    }
    const bool flat = minimum == maximum;
    const float scale = flat ? 1 : 1 / static_cast<float>(maximum - minimum) * 255;
    tables[c] = table_of(
        [&](int v) { return truncated(static_cast<float>(flat ? v : v - minimum) * scale); });
  }
  map(image, tables);
}

/// The histogram of a channel's pixels to a table that flattens it.
Table equalizing(const std::array<int64_t, 256>& counts) {
  const auto brightest =
      std::find_if(counts.rbegin(), counts.rend(), [](int64_t n) { return n > 0; });
  int64_t below = 0, total = 0;
  for (const int64_t n : counts) total += n;
  const int64_t step = (total - *brightest) / 255;
  return table_of([&](int v) {
    if (step == 0) return static_cast<uint8_t>(v);
    const int64_t level = v == 0 ? 0 : (below + step / 2) / step;
    below += counts[static_cast<size_t>(v)];
    return static_cast<uint8_t>(std::min<int64_t>(level, 255));
  });
}

void equalize(const MutableImage& image) {
  std::array<std::array<int64_t, 256>, 3> counts{};
  const auto channels = static_cast<size_t>(image.channels);
  const uint8_t* const end = image.pixels + values_of(image);
  for (const uint8_t* pixel = image.pixels; pixel < end; pixel += channels)
    for (size_t c = 0; c < channels; ++c) ++counts[c][pixel[c]];
  Tables tables;
  for (size_t c = 0; c < channels; ++c) tables[c] = equalizing(counts[c]);
  map(image, tables);
}

}  // namespace

void apply(ImageOp op, double magnitude, const MutableImage& image, Interpolation interpolation) {
  if (values_of(image) == 0) return;
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
      return map(image, table_of([blend = Blend(1 + magnitude)](int v) {
                   return blend(static_cast<float>(v), 0);
                 }));
    case ImageOp::color:
      return color(1 + magnitude, image);
    case ImageOp::contrast:
      return contrast(1 + magnitude, image);
    case ImageOp::sharpness:
      return sharpness(1 + magnitude, image);
    case ImageOp::posterize:
      return map(image, table_of([mask = 0xFF << (8 - static_cast<int>(magnitude))](int v) {
                   return static_cast<uint8_t>(v & mask);
                 }));
    case ImageOp::solarize:
      return map(image, table_of([&](int v) {
                   return static_cast<uint8_t>(v >= magnitude ? 255 - v : v);
                 }));
    case ImageOp::autocontrast:
      return autocontrast(image);
    case ImageOp::equalize:
      return equalize(image);
    case ImageOp::invert:
      return map(image, table_of([](int v) { return static_cast<uint8_t>(255 - v); }));
  }
}

void apply_draw(const Steps& steps, const MutableImage& image) {
  for (const auto& step : steps) apply(step.op, step.magnitude, image, step.interpolation);
}

void apply_draw(const AugMixDraw& draw, const MutableImage& image) {
  const auto n = static_cast<size_t>(values_of(image));
  thread_local std::vector<float> sums;
  thread_local std::vector<uint8_t> copy;
  sums.assign(n, 0);
  float* const average = sums.data();
  for (size_t chain = 0; chain < draw.chains.size(); ++chain) {
    copy.assign(image.pixels, image.pixels + n);
    uint8_t* const changed = copy.data();
    apply_draw(draw.chains[chain], {changed, image.height, image.width, image.channels});
    const auto weight = static_cast<float>(draw.weights[chain]);
    for (size_t i = 0; i < n; ++i) average[i] += weight * static_cast<float>(changed[i]);
  }
  const auto mixing = static_cast<float>(draw.mixing), rest = static_cast<float>(1 - draw.mixing);
  for (size_t i = 0; i < n; ++i)
    image.pixels[i] = truncated(rest * static_cast<float>(image.pixels[i]) + mixing * average[i]);
}

}  // namespace composer

#include "data/resize.h"

#include <cmath>
#include <cstring>

#if defined(__x86_64__) && defined(__GNUC__)
#define COMPOSER_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define COMPOSER_CLONES
#endif

namespace composer {
namespace {

constexpr int kPrecision = 22;  // bits after the point of a weight
constexpr int32_t kHalf = 1 << (kPrecision - 1);

/// For each output position: which input pixels weigh in, and how much.
struct Weights {
  int64_t taps = 0;             ///< weights kept for each output position
  std::vector<int64_t> first;   ///< the first input position
  std::vector<int64_t> count;   ///< how many of the taps are used
  std::vector<int32_t> values;  ///< [output position][taps], fixed point, unused ones 0
  std::vector<double> exact;    ///< of one output position
  bool identity = false;        ///< output i is input begin + i
};

// The triangle filter, widened by the ratio where the image shrinks; the arithmetic follows
// Pillow's to the last bit.
void compute_weights(int64_t input, double begin, double length, int64_t output,
                     int64_t window_begin, int64_t window, Weights& w) {
  const double scale = length / static_cast<double>(output);
  const double widen = std::max(scale, 1.0);
  w.taps = static_cast<int64_t>(std::ceil(widen)) * 2 + 1;
  w.first.resize(window), w.count.resize(window);
  w.values.assign(static_cast<size_t>(window * w.taps), 0);
  w.identity = scale == 1.0;
  w.exact.resize(static_cast<size_t>(w.taps));
  const double shrink = 1.0 / widen;
  for (int64_t i = 0; i < window; ++i) {
    const double center = begin + (static_cast<double>(i + window_begin) + 0.5) * scale;
    const int64_t low = std::max<int64_t>(static_cast<int64_t>(center - widen + 0.5), 0);
    const int64_t high = std::min<int64_t>(static_cast<int64_t>(center + widen + 0.5), input);
    double sum = 0;
    for (int64_t x = low; x < high; ++x) {
      const double distance = std::abs((static_cast<double>(x) - center + 0.5) * shrink);
      sum += w.exact[x - low] = distance < 1.0 ? 1.0 - distance : 0.0;
    }
    w.first[i] = low, w.count[i] = high - low;
    int32_t* values = w.values.data() + i * w.taps;
    for (int64_t k = 0; k < high - low; ++k) {
      const double weight = sum != 0 ? w.exact[k] / sum : 0.0;
      values[k] = static_cast<int32_t>(0.5 + weight * (1 << kPrecision));
    }
  }
}

// Weights are never negative and add up to 1 within rounding: only the upper end needs a clamp.
inline uint8_t to_byte(int32_t sum) {
  return static_cast<uint8_t>(std::min(sum >> kPrecision, 255));
}

template <int kChannels>
void horizontal_row(const uint8_t* in, const Weights& w, int64_t width, bool flip, uint8_t* out) {
  const int64_t step = flip ? -kChannels : kChannels;
  uint8_t* to = flip ? out + (width - 1) * kChannels : out;
  for (int64_t x = 0; x < width; ++x, to += step) {
    const uint8_t* from = in + w.first[x] * kChannels;
    const int32_t* weight = w.values.data() + x * w.taps;
    int32_t sum[kChannels];
    for (int c = 0; c < kChannels; ++c) sum[c] = kHalf;
    for (int64_t k = 0; k < w.count[x]; ++k, from += kChannels) {
      for (int c = 0; c < kChannels; ++c) sum[c] += from[c] * weight[k];
    }
    for (int c = 0; c < kChannels; ++c) to[c] = to_byte(sum[c]);
  }
}

constexpr int64_t kBlock = 32;  // columns whose sums stay in registers

COMPOSER_CLONES
void vertical_row(const uint8_t* in, int64_t stride, const int32_t* weight, int64_t count,
                  int64_t bytes, uint8_t* out) {
  int64_t i = 0;
  for (; i + kBlock <= bytes; i += kBlock) {
    int32_t sums[kBlock];
    for (int64_t j = 0; j < kBlock; ++j) sums[j] = kHalf;
    for (int64_t k = 0; k < count; ++k) {
      const uint8_t* row = in + k * stride + i;
      for (int64_t j = 0; j < kBlock; ++j) sums[j] += row[j] * weight[k];
    }
    for (int64_t j = 0; j < kBlock; ++j) out[i + j] = to_byte(sums[j]);
  }
  for (; i < bytes; ++i) {
    int32_t sum = kHalf;
    for (int64_t k = 0; k < count; ++k) sum += in[k * stride + i] * weight[k];
    out[i] = to_byte(sum);
  }
}

template <int kChannels>
void mirror(const uint8_t* in, int64_t width, uint8_t* out) {
  uint8_t* to = out + (width - 1) * kChannels;
  for (int64_t x = 0; x < width; ++x, in += kChannels, to -= kChannels) {
    for (int c = 0; c < kChannels; ++c) to[c] = in[c];
  }
}

struct Scratch {
  Weights horizontal, vertical;
  std::vector<uint8_t> rows;
};

}  // namespace

void copy_pixels(const ImageView& image, bool flip, uint8_t* out) {
  const int64_t bytes = image.width * image.channels;
  for (int64_t y = 0; y < image.height; ++y, out += bytes) {
    if (!flip) {
      std::memcpy(out, image.row(y), static_cast<size_t>(bytes));
    } else if (image.channels == 3) {
      mirror<3>(image.row(y), image.width, out);
    } else {
      mirror<1>(image.row(y), image.width, out);
    }
  }
}

void resize_bilinear(const ImageView& image, const Box& box, ImageSize size, const Box& window,
                     bool flip, uint8_t* out) {
  if (box.height == size.height && box.width == size.width) {
    return copy_pixels(
        image.crop(box.top + window.top, box.left + window.left, window.height, window.width), flip,
        out);
  }
  thread_local Scratch scratch;
  Weights& across = scratch.horizontal;
  Weights& down = scratch.vertical;
  compute_weights(image.width, static_cast<double>(box.left), static_cast<double>(box.width),
                  size.width, window.left, window.width, across);
  compute_weights(image.height, static_cast<double>(box.top), static_cast<double>(box.height),
                  size.height, window.top, window.height, down);

  // First the rows that the vertical pass will need get their final width, then columns their
  // height.
  const int64_t first_row = down.first.front();
  const int64_t rows = down.first.back() + down.count.back() - first_row;
  const int64_t bytes = window.width * image.channels;
  uint8_t* narrow = out;
  if (!down.identity) {
    scratch.rows.resize(static_cast<size_t>(rows * bytes));
    narrow = scratch.rows.data();
  }
  const auto row_pass = image.channels == 3 ? horizontal_row<3> : horizontal_row<1>;
  const int64_t offset = down.identity ? box.top + window.top : first_row;
  const int64_t needed = down.identity ? window.height : rows;
  for (int64_t y = 0; y < needed; ++y) {
    row_pass(image.row(offset + y), across, window.width, flip, narrow + y * bytes);
  }
  if (down.identity) return;
  for (int64_t y = 0; y < window.height; ++y) {
    vertical_row(narrow + (down.first[y] - first_row) * bytes, bytes,
                 down.values.data() + y * down.taps, down.count[y], bytes, out + y * bytes);
  }
}

void resize_bilinear(const ImageView& image, ImageSize size, bool flip, uint8_t* out) {
  resize_bilinear(image, {0, 0, image.height, image.width}, size, {0, 0, size.height, size.width},
                  flip, out);
}

}  // namespace composer

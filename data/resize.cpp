#include "data/resize.h"

#include <cmath>
#include <cstring>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define COMPOSER_AVX2
#endif
// The choice between clones runs before ThreadSanitizer has started, which would crash.
#if defined(COMPOSER_AVX2) && !defined(__SANITIZE_THREAD__)
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
  std::vector<int32_t> pairs;   ///< [output position][taps / 4][4], see pack_pairs
  std::vector<double> exact;    ///< of one output position
};

// The triangle filter, widened by the ratio where the image shrinks; the arithmetic follows
// Pillow's to the last bit.
void compute_weights(int64_t input, int64_t begin, int64_t length, int64_t output,
                     int64_t window_begin, int64_t window, Weights& w) {
  const double scale = static_cast<double>(length) / static_cast<double>(output);
  const double widen = std::max(scale, 1.0);
  w.taps = static_cast<int64_t>(std::ceil(widen)) * 2 + 1;
  w.first.resize(window), w.count.resize(window);
  w.values.assign(static_cast<size_t>(window * w.taps), 0);
  w.exact.resize(static_cast<size_t>(w.taps));
  const double shrink = 1.0 / widen;
  for (int64_t i = 0; i < window; ++i) {
    const double center =
        static_cast<double>(begin) + (static_cast<double>(i + window_begin) + 0.5) * scale;
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

#ifdef COMPOSER_AVX2

constexpr int kLowBits = 11;  // a weight is split in two halves that fit 16 bits

int64_t groups(const Weights& w) {
  return (*std::max_element(w.count.begin(), w.count.end()) + 3) / 4;
}

/// For each four taps k: the upper halves of (k0, k1) and (k2, k3), then the lower halves of both,
/// as pairs of 16 bits.
void pack_pairs(Weights& w) {
  const auto numbers = static_cast<size_t>(groups(w) * 4);
  w.pairs.assign(w.first.size() * numbers, 0);
  for (size_t x = 0; x < w.first.size(); ++x) {
    const int32_t* values = w.values.data() + x * static_cast<size_t>(w.taps);
    for (int64_t k = 0; k < w.count[x]; ++k) {
      int32_t* group = w.pairs.data() + x * numbers + k / 4 * 4 + k % 4 / 2;
      const int shift = k % 2 * 16;
      group[0] |= (values[k] >> kLowBits) << shift;
      group[2] |= (values[k] & ((1 << kLowBits) - 1)) << shift;
    }
  }
}

/// How many bytes from the start of a row horizontal_row_avx2 may read.
int64_t bytes_read(const Weights& w) { return (w.first.back() + 4 * groups(w)) * 3 + 4; }

/// horizontal_row<3>, four taps at a time.
__attribute__((target("avx2"))) void horizontal_row_avx2(const uint8_t* in, const Weights& w,
                                                         int64_t width, bool flip, uint8_t* out) {
  const int64_t count = static_cast<int64_t>(w.pairs.size()) / (4 * width);
  const __m256i spread =
      _mm256_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1, 6, -1, 9, -1, 7,
                       -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1);
  const __m256i upper = _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1);
  const __m256i lower = _mm256_setr_epi32(2, 2, 2, 2, 3, 3, 3, 3);
  const int64_t step = flip ? -3 : 3;
  uint8_t* to = flip ? out + (width - 1) * 3 : out;
  const int32_t* pairs = w.pairs.data();
  for (int64_t x = 0; x < width; ++x, to += step) {
    const uint8_t* from = in + w.first[static_cast<size_t>(x)] * 3;
    __m256i high = _mm256_setzero_si256(), low = high;
    for (int64_t g = 0; g < count; ++g, from += 12, pairs += 4) {
      const auto* bytes = reinterpret_cast<const __m128i*>(from);
      const auto* four = reinterpret_cast<const __m128i*>(pairs);
      const __m256i pixels =
          _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128(bytes)), spread);
      const __m256i weights = _mm256_castsi128_si256(_mm_loadu_si128(four));
      high = _mm256_add_epi32(
          high, _mm256_madd_epi16(pixels, _mm256_permutevar8x32_epi32(weights, upper)));
      low = _mm256_add_epi32(
          low, _mm256_madd_epi16(pixels, _mm256_permutevar8x32_epi32(weights, lower)));
    }
    const __m256i both = _mm256_add_epi32(_mm256_slli_epi32(high, kLowBits), low);
    __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
    sum = _mm_srli_epi32(_mm_add_epi32(sum, _mm_set1_epi32(kHalf)), kPrecision);
    sum = _mm_packus_epi16(_mm_packus_epi32(sum, sum), sum);
    const auto rgb = static_cast<uint32_t>(_mm_cvtsi128_si32(sum));
    std::memcpy(to, &rgb, 2);
    to[2] = static_cast<uint8_t>(rgb >> 16);
  }
}

bool has_avx2() {
  static const bool has = __builtin_cpu_supports("avx2");
  return has;
}

#endif

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

void horizontal_rows(const uint8_t* in, int64_t stride, int64_t rows, int64_t in_width,
                     int64_t channels, Weights& w, bool flip, uint8_t* out) {
  auto row = channels == 3 ? horizontal_row<3> : horizontal_row<1>;
  const auto slow_row = row;
  int64_t fast_rows = rows;
#ifdef COMPOSER_AVX2
  if (channels == 3 && has_avx2()) {
    pack_pairs(w);
    row = horizontal_row_avx2;
    // Where four taps reach past the last pixel, the row must not be among the last.
    const int64_t missing = bytes_read(w) - in_width * 3;
    if (missing > 0) fast_rows = std::max<int64_t>(rows - (missing + stride - 1) / stride, 0);
  }
#endif
  const auto width = static_cast<int64_t>(w.first.size());
  for (int64_t y = 0; y < rows; ++y) {
    (y < fast_rows ? row : slow_row)(in + y * stride, w, width, flip, out + y * width * channels);
  }
}

void vertical_rows(const uint8_t* in, int64_t stride, int64_t bytes, const Weights& w,
                   uint8_t* out) {
  for (size_t y = 0; y < w.first.size(); ++y, out += bytes) {
    vertical_row(in + w.first[y] * stride, stride,
                 w.values.data() + static_cast<int64_t>(y) * w.taps, w.count[y], bytes, out);
  }
}

/// The input positions that weigh in anywhere; makes the weights count from the first of them.
struct Range {
  int64_t begin, length;
};
Range cut(Weights& w) {
  const int64_t begin = w.first.front(), end = w.first.back() + w.count.back();
  for (int64_t& first : w.first) first -= begin;
  return {begin, end - begin};
}

// The passes round to bytes in between, so their order shows in the result: Pillow's, since its
// version 13.
bool vertical_first(const ImageView& image, ImageSize size) {
  const int64_t shorter = image.height - size.height;
  return shorter > 0 && shorter > 2 * (image.width - size.width);
}

struct Scratch {
  Weights across, down;
  std::vector<uint8_t> between;
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
  auto& [across, down, between] = scratch;
  compute_weights(image.width, box.left, box.width, size.width, window.left, window.width, across);
  compute_weights(image.height, box.top, box.height, size.height, window.top, window.height, down);
  const Range columns = cut(across), rows = cut(down);
  const ImageView used = image.crop(rows.begin, columns.begin, rows.length, columns.length);
  const int64_t channels = image.channels;
  if (box.height == size.height) {
    horizontal_rows(used.pixels, used.stride, window.height, used.width, channels, across, flip,
                    out);
  } else if (box.width == size.width && !flip) {
    vertical_rows(used.pixels, used.stride, window.width * channels, down, out);
  } else if (vertical_first(image, size)) {
    const int64_t bytes = columns.length * channels;
    between.resize(static_cast<size_t>(window.height * bytes));
    vertical_rows(used.pixels, used.stride, bytes, down, between.data());
    horizontal_rows(between.data(), bytes, window.height, columns.length, channels, across, flip,
                    out);
  } else {
    const int64_t bytes = window.width * channels;
    between.resize(static_cast<size_t>(rows.length * bytes));
    horizontal_rows(used.pixels, used.stride, rows.length, used.width, channels, across, flip,
                    between.data());
    vertical_rows(between.data(), bytes, bytes, down, out);
  }
}

void resize_bilinear(const ImageView& image, ImageSize size, bool flip, uint8_t* out) {
  resize_bilinear(image, {0, 0, image.height, image.width}, size, {0, 0, size.height, size.width},
                  flip, out);
}

}  // namespace composer

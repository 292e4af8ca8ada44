#include "data/pixels/resize_triangle.h"

#include <algorithm>

#include "data/pixels/resize_triangle_x86.h"
#include "data/pixels/simd.h"

namespace composer {
namespace {

constexpr int32_t kHalf = 1 << (kTriangleBits - 1);
constexpr int kSplit = 11;  // bits of a weight's lower half

// Weights are never negative and add up to 1 within rounding: only the upper end needs a clamp.
uint8_t to_byte(int32_t sum) { return static_cast<uint8_t>(std::min(sum >> kTriangleBits, 255)); }

template <int kChannels>
void across_scalar(const ResizeAxis& axis, bool flip, const uint8_t* in, uint8_t* out) {
  const int64_t n = axis.outputs, step = flip ? -kChannels : kChannels;
  uint8_t* to = flip ? out + (n - 1) * kChannels : out;
  for (int64_t x = 0; x < n; ++x, to += step) {
    const uint8_t* from = in + axis.first[static_cast<size_t>(x)] * kChannels;
    const int32_t* weight = axis.fixed.data() + x;
    int32_t sum[kChannels];
    for (int c = 0; c < kChannels; ++c) sum[c] = kHalf;
    for (int64_t k = 0; k < axis.taps; ++k, from += kChannels, weight += n) {
      for (int c = 0; c < kChannels; ++c) sum[c] += from[c] * *weight;
    }
    for (int c = 0; c < kChannels; ++c) to[c] = to_byte(sum[c]);
  }
}

void down_scalar(const ResizeAxis& axis, const uint8_t* const* rows, int64_t y, int64_t n,
                 uint8_t* out) {
  for (int64_t i = 0; i < n; ++i) {
    int32_t sum = kHalf;
    for (int64_t k = 0; k < axis.taps; ++k) {
      sum += rows[k][i] * axis.fixed[static_cast<size_t>(k * axis.outputs + y)];
    }
    out[i] = to_byte(sum);
  }
}

}  // namespace

bool TriangleAcross::prepare_avx512() {
  if (!lanes_.make(*axis_, channels_, flip_, LaneBytes::four, 16, 64)) return false;
  std::vector<uint32_t>& pixels = lanes_.by_pixel;
  pixels.resize(static_cast<size_t>(axis_->outputs));
  lanes_.weights.resize(static_cast<size_t>(lanes_.steps * 3 * lanes_.values));
  uint32_t* to = lanes_.weights.data();
  for (int64_t step = 0; step < lanes_.steps; ++step) {
    for (int level = 0; level < 3; ++level, to += lanes_.values) {
      pack_quads(*axis_, step, level, pixels.data());
      lanes_.spread(pixels.data(), axis_->outputs, channels_, flip_, to);
    }
  }
  return true;
}

bool TriangleAcross::prepare_avx2() {
  if (!lanes_.make(*axis_, channels_, flip_, LaneBytes::two, 4, 16)) return false;
  std::vector<uint32_t>& pixels = lanes_.by_pixel;
  pixels.resize(static_cast<size_t>(axis_->outputs));
  lanes_.weights.resize(static_cast<size_t>(lanes_.steps * 2 * lanes_.values));
  uint32_t* to = lanes_.weights.data();
  for (int64_t step = 0; step < lanes_.steps; ++step) {
    for (const int shift : {kSplit, 0}) {
      pack_pairs(*axis_, step, shift, shift == 0 ? kSplit : 16, pixels.data());
      lanes_.spread(pixels.data(), axis_->outputs, channels_, flip_, to);
      to += lanes_.values;
    }
  }
  return true;
}

void TriangleAcross::prepare_wide() {
  const ResizeAxis& axis = *axis_;
  const int64_t n = axis.outputs;
  wide_steps_ = (axis.taps + 3) / 4;
  wide_firsts_.resize(static_cast<size_t>(n));
  wide_weights_.assign(static_cast<size_t>(n * wide_steps_ * 4), 0);
  for (int64_t x = 0; x < n; ++x) {
    const auto from = static_cast<size_t>(flip_ ? n - 1 - x : x);
    wide_firsts_[static_cast<size_t>(x)] = axis.first[from] * 3;
    for (int64_t k = 0; k < axis.taps; ++k) {
      const auto weight = static_cast<uint32_t>(axis.fixed[static_cast<size_t>(k * n) + from]);
      uint32_t* four = wide_weights_.data() + (x * wide_steps_ + k / 4) * 4 + k % 4 / 2;
      const int shift = static_cast<int>(k % 2) * 16;
      four[0] |= weight >> kSplit << shift;
      four[2] |= (weight & ((1U << kSplit) - 1)) << shift;
    }
  }
  const int64_t furthest = std::max(wide_firsts_.front(), wide_firsts_.back());
  bytes_read_ = furthest + (wide_steps_ - 1) * 12 + 16;
}

void TriangleAcross::prepare(const ResizeAxis& axis, int64_t channels, bool flip) {
  axis_ = &axis, channels_ = channels, flip_ = flip;
  kernel_ = Kernel::plain;
  if (simd() == Simd::avx512 && prepare_avx512()) {
    kernel_ = Kernel::avx512;
  } else if (simd() >= Simd::avx2 && prepare_avx2()) {
    kernel_ = Kernel::avx2;
  } else if (simd() >= Simd::avx2 && channels == 3) {
    kernel_ = Kernel::avx2_wide;
    return prepare_wide();
  }
  bytes_read_ = kernel_ == Kernel::plain ? axis.length * channels : lanes_.bytes_read;
}

void TriangleAcross::run(const uint8_t* in, uint8_t* out) const {
#ifdef COMPOSER_X86
  const int64_t n = axis_->outputs * channels_;
  switch (kernel_) {
    case Kernel::avx512:
      return triangle_across_avx512(lanes_, in, n, out);
    case Kernel::avx2:
      return triangle_across_avx2(lanes_, in, n, out);
    case Kernel::avx2_wide:
      return triangle_across_wide_avx2(wide_firsts_.data(), wide_weights_.data(), wide_steps_,
                                       axis_->outputs, in, out);
    case Kernel::plain:
      break;
  }
#endif
  (channels_ == 3 ? across_scalar<3> : across_scalar<1>)(*axis_, flip_, in, out);
}

void TriangleDown::prepare(const ResizeAxis& axis) {
  axis_ = &axis, level_ = simd();
  if (level_ == Simd::scalar) return;
  const bool quads = level_ == Simd::avx512 && axis.taps != 2;
  const int64_t steps = quads ? (axis.taps + 3) / 4 : (axis.taps + 1) / 2;
  const int64_t levels = quads ? 3 : 2, n = axis.outputs;
  row_weights_ = steps * levels;
  weights_.resize(static_cast<size_t>(n * row_weights_));
  by_position_.resize(static_cast<size_t>(n));
  for (int64_t i = 0; i < row_weights_; ++i) {
    const auto level = static_cast<int>(i % levels);
    if (quads) {
      pack_quads(axis, i / levels, level, by_position_.data());
    } else {
      pack_pairs(axis, i / levels, level == 0 ? kSplit : 0, level == 0 ? 16 : kSplit,
                 by_position_.data());
    }
    for (int64_t y = 0; y < n; ++y) {
      weights_[static_cast<size_t>(y * row_weights_ + i)] = by_position_[static_cast<size_t>(y)];
    }
  }
}

void TriangleDown::run(const uint8_t* const* rows, int64_t y, int64_t n, uint8_t* out) const {
#ifdef COMPOSER_X86
  const uint32_t* weights = weights_.data() + y * row_weights_;
  if (level_ == Simd::avx512) return triangle_down_avx512(rows, axis_->taps, weights, n, out);
  if (level_ == Simd::avx2) return triangle_down_avx2(rows, axis_->taps, weights, n, out);
#endif
  down_scalar(*axis_, rows, y, n, out);
}

}  // namespace composer

#include "data/pixels/resize_area.h"

#include <algorithm>
#include <cmath>
#include <cstring>

// Compiled without fused multiply-add (data/CMakeLists.txt): equal to OpenCV to the last bit.
namespace composer {
namespace {

constexpr int kKeptBits = kLinearBits - 4;  // after the point, between the passes

uint8_t round_to_byte(float value) {
  return static_cast<uint8_t>(std::clamp(std::lrintf(value), 0L, 255L));
}

template <int kChannels>
void linear_across(const ResizeAxis& axis, bool flip, const uint8_t* in, int16_t* out) {
  const int64_t n = axis.outputs, step = flip ? -kChannels : kChannels;
  int16_t* to = flip ? out + (n - 1) * kChannels : out;
  for (int64_t x = 0; x < n; ++x, to += step) {
    const uint8_t* from = in + axis.first[static_cast<size_t>(x)] * kChannels;
    const int32_t* weight = axis.fixed.data() + x;
    int32_t sum[kChannels] = {};
    for (int64_t k = 0; k < axis.taps; ++k, from += kChannels, weight += n) {
      for (int c = 0; c < kChannels; ++c) sum[c] += from[c] * *weight;
    }
    for (int c = 0; c < kChannels; ++c) {
      to[c] = static_cast<int16_t>(sum[c] >> (kLinearBits - kKeptBits));
    }
  }
}

void linear_down(const ResizeAxis& axis, const int16_t* const* rows, int64_t y, int64_t n,
                 uint8_t* out) {
  for (int64_t i = 0; i < n; ++i) {
    int32_t sum = 2;
    for (int64_t k = 0; k < axis.taps; ++k) {
      sum += (rows[k][i] * axis.fixed[static_cast<size_t>(k * axis.outputs + y)]) >> 16;
    }
    out[i] = static_cast<uint8_t>(sum >> 2);
  }
}

template <int kChannels>
void box_across(const ResizeAxis& axis, bool flip, const uint8_t* in, float* out) {
  const int64_t n = axis.outputs, step = flip ? -kChannels : kChannels;
  float* to = flip ? out + (n - 1) * kChannels : out;
  for (int64_t x = 0; x < n; ++x, to += step) {
    const uint8_t* from = in + axis.first[static_cast<size_t>(x)] * kChannels;
    const float* weight = axis.real.data() + x;
    float sum[kChannels] = {};
    for (int64_t k = 0; k < axis.taps; ++k, from += kChannels, weight += n) {
      for (int c = 0; c < kChannels; ++c) sum[c] += static_cast<float>(from[c]) * *weight;
    }
    for (int c = 0; c < kChannels; ++c) to[c] = sum[c];
  }
}

void box_down(const ResizeAxis& axis, const float* const* rows, int64_t y, int64_t n,
              uint8_t* out) {
  for (int64_t i = 0; i < n; ++i) {
    float sum = 0;
    for (int64_t k = 0; k < axis.taps; ++k) {
      sum += rows[k][i] * axis.real[static_cast<size_t>(k * axis.outputs + y)];
    }
    out[i] = round_to_byte(sum);
  }
}

}  // namespace

bool LinearAcross::prepare_lanes(const AcrossKernel<Value>& kernel) {
  if (!lanes_.make(*axis_, channels_, flip_, LaneBytes::two, kernel.lanes, kernel.window_bytes)) {
    return false;
  }
  lanes_.by_pixel.resize(static_cast<size_t>(axis_->outputs));
  lanes_.weights.resize(static_cast<size_t>(lanes_.values));
  pack_pairs(*axis_, 0, 0, 16, lanes_.by_pixel.data());
  lanes_.spread(lanes_.by_pixel.data(), axis_->outputs, channels_, flip_, lanes_.weights.data());
  kernel_ = &kernel, bytes_read_ = lanes_.bytes_read;
  return true;
}

void LinearAcross::prepare(const ResizeAxis& axis, int64_t channels, bool flip) {
  axis_ = &axis, channels_ = channels, flip_ = flip;
  for (const auto& kernel : area_kernels().linear_across) {
    if (prepare_lanes(kernel)) return;
  }
  kernel_ = nullptr, bytes_read_ = axis.length * channels;
}

void LinearAcross::run(const uint8_t* in, int16_t* out) const {
  if (kernel_ != nullptr) return kernel_->run(lanes_, in, out);
  (channels_ == 3 ? linear_across<3> : linear_across<1>)(*axis_, flip_, in, out);
}

void LinearDown::prepare(const ResizeAxis& axis) { axis_ = &axis, kernels_ = &area_kernels(); }

void LinearDown::run(const int16_t* const* rows, int64_t y, int64_t n, uint8_t* out) const {
  if (kernels_->linear_down == nullptr) return linear_down(*axis_, rows, y, n, out);
  const auto last = static_cast<size_t>(axis_->taps - 1);
  const int16_t* two[2] = {rows[0], rows[last]};
  const int32_t* weight = axis_->fixed.data() + y;
  const int32_t weights[2] = {weight[0], last == 0 ? 0 : weight[axis_->outputs]};
  kernels_->linear_down(two, weights, n, out);
}

bool BoxAcross::prepare_lanes(const AcrossKernel<Value>& kernel) {
  if (!lanes_.make(*axis_, channels_, flip_, LaneBytes::one, kernel.lanes, kernel.window_bytes)) {
    return false;
  }
  lanes_.by_pixel.resize(static_cast<size_t>(axis_->outputs));
  lanes_.weights.resize(static_cast<size_t>(lanes_.steps * lanes_.values));
  for (int64_t k = 0; k < lanes_.steps; ++k) {
    std::memcpy(lanes_.by_pixel.data(), axis_->real.data() + k * axis_->outputs,
                lanes_.by_pixel.size() * sizeof(float));
    lanes_.spread(lanes_.by_pixel.data(), axis_->outputs, channels_, flip_,
                  lanes_.weights.data() + k * lanes_.values);
  }
  kernel_ = &kernel, bytes_read_ = lanes_.bytes_read;
  return true;
}

void BoxAcross::prepare(const ResizeAxis& axis, int64_t channels, bool flip) {
  axis_ = &axis, channels_ = channels, flip_ = flip;
  for (const auto& kernel : area_kernels().box_across) {
    if (prepare_lanes(kernel)) return;
  }
  kernel_ = nullptr, bytes_read_ = axis.length * channels;
}

void BoxAcross::run(const uint8_t* in, float* out) const {
  if (kernel_ != nullptr) return kernel_->run(lanes_, in, out);
  (channels_ == 3 ? box_across<3> : box_across<1>)(*axis_, flip_, in, out);
}

void BoxDown::prepare(const ResizeAxis& axis) { axis_ = &axis, kernels_ = &area_kernels(); }

void BoxDown::run(const float* const* rows, int64_t y, int64_t n, uint8_t* out) const {
  if (kernels_->box_down == nullptr) return box_down(*axis_, rows, y, n, out);
  kernels_->box_down(rows, axis_->taps, axis_->real.data() + y, axis_->outputs, n, out);
}

void shrink_by_whole_factors(const ImageView& image, ImageSize window, int64_t down, int64_t across,
                             bool flip, uint8_t* out) {
  const int64_t c = image.channels, cells = down * across;
  const float share = 1.0F / static_cast<float>(cells);
  for (int64_t y = 0; y < window.height; ++y) {
    for (int64_t x = 0; x < window.width; ++x) {
      const int64_t from = flip ? window.width - 1 - x : x;
      for (int64_t k = 0; k < c; ++k, ++out) {
        int32_t sum = 0;
        for (int64_t v = 0; v < down; ++v) {
          const uint8_t* row = image.row(y * down + v) + from * across * c + k;
          for (int64_t u = 0; u < across; ++u) sum += row[u * c];
        }
        *out = down == 2 && across == 2 ? static_cast<uint8_t>((sum + 2) >> 2)
                                        : round_to_byte(static_cast<float>(sum) * share);
      }
    }
  }
}

}  // namespace composer

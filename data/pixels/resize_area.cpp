#include "data/pixels/resize_area.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

// Compiled without fused multiply-add (data/CMakeLists.txt): equal to OpenCV to the last bit.
namespace composer {
namespace {

constexpr int kKeptBits = kLinearBits - 4;  // after the point, between the passes

uint8_t round_to_byte(float value) {
  return static_cast<uint8_t>(std::clamp(std::lrintf(value), 0L, 255L));
}

template <int channels>
void plain_across(const ResizeAxis& axis, bool flip, const uint8_t* in, int16_t* out) {
  sum_across<channels>(
      axis, axis.fixed, flip, in, 0,
      [](int32_t sum) { return static_cast<int16_t>(sum >> (kLinearBits - kKeptBits)); }, out);
}

template <int channels>
void plain_across(const ResizeAxis& axis, bool flip, const uint8_t* in, float* out) {
  sum_across<channels>(
      axis, axis.real, flip, in, 0.0F, [](float sum) { return sum; }, out);
}

void plain_down(const ResizeAxis& axis, const int16_t* const* rows, int64_t y, int64_t n,
                uint8_t* out) {
  for (int64_t i = 0; i < n; ++i) {
    int32_t sum = 2;
    for (int64_t k = 0; k < axis.taps; ++k) {
      sum += (rows[k][i] * axis.fixed[static_cast<size_t>(k * axis.outputs + y)]) >> 16;
    }
    out[i] = static_cast<uint8_t>(sum >> 2);
  }
}

/// The kernels along the rows, and their weights.
struct LinearWeights {
  static constexpr LaneBytes kBytes = LaneBytes::two;
  static auto kernels() { return area_kernels().linear_across; }
  static void pack(const ResizeAxis& axis, int64_t step, uint32_t* to) {
    pack_pairs(axis, step, 0, 16, to);
  }
};
struct BoxWeights {
  static constexpr LaneBytes kBytes = LaneBytes::one;
  static auto kernels() { return area_kernels().box_across; }
  static void pack(const ResizeAxis& axis, int64_t step, uint32_t* to) {
    std::memcpy(to, axis.real.data() + step * axis.outputs,
                static_cast<size_t>(axis.outputs) * sizeof(float));
  }
};

}  // namespace

template <class Value>
void AreaAcross<Value>::prepare(const ResizeAxis& axis, int64_t channels, bool flip) {
  using Weights = std::conditional_t<std::is_same_v<Value, float>, BoxWeights, LinearWeights>;
  axis_ = &axis, channels_ = channels, flip_ = flip;
  for (const auto& kernel : Weights::kernels()) {
    if (!lanes_.make(axis, channels, flip, Weights::kBytes, kernel.lanes, kernel.window_bytes))
      continue;
    lanes_.fill_weights(axis, channels, flip, 1,
                        [&](int64_t step, uint32_t* to) { Weights::pack(axis, step, to); });
    kernel_ = &kernel, bytes_read_ = lanes_.bytes_read;
    return;
  }
  kernel_ = nullptr, bytes_read_ = axis.length * channels;
}

template <class Value>
void AreaAcross<Value>::run(const uint8_t* in, Value* out) const {
  if (kernel_ != nullptr) return kernel_->run(lanes_, in, out);
  channels_ == 3 ? plain_across<3>(*axis_, flip_, in, out)
                 : plain_across<1>(*axis_, flip_, in, out);
}

template class AreaAcross<int16_t>;
template class AreaAcross<float>;

void area_down(const ResizeAxis& axis, const int16_t* const* rows, int64_t y, int64_t n,
               uint8_t* out) {
  const auto kernel = area_kernels().linear_down;
  if (kernel == nullptr) return plain_down(axis, rows, y, n, out);
  const auto last = static_cast<size_t>(axis.taps - 1);
  const int16_t* two[2] = {rows[0], rows[last]};
  const int32_t* weight = axis.fixed.data() + y;
  const int32_t weights[2] = {weight[0], last == 0 ? 0 : weight[axis.outputs]};
  kernel(two, weights, n, out);
}

void area_down(const ResizeAxis& axis, const float* const* rows, int64_t y, int64_t n,
               uint8_t* out) {
  const auto kernel = area_kernels().box_down;
  if (kernel == nullptr) return sum_down(axis, axis.real, rows, y, n, 0.0F, round_to_byte, out);
  kernel(rows, axis.taps, axis.real.data() + y, axis.outputs, n, out);
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

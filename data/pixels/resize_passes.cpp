#include "data/pixels/resize_passes.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

// Compiled without fused multiply-add (data/CMakeLists.txt): equal to OpenCV to the last bit.
namespace composer {
namespace {

constexpr int32_t kHalf = 1 << (kTriangleBits - 1);
constexpr int kSplit = 11;  // bits of a weight's lower half

uint8_t to_byte(int32_t sum) {
  return static_cast<uint8_t>(std::clamp(sum >> kTriangleBits, 0, 255));
}

template <int channels>
void triangle_across(const ResizeAxis& axis, bool flip, const uint8_t* in, uint8_t* out) {
  sum_across<channels>(axis, axis.fixed, flip, in, kHalf, to_byte, out);
}

/// The numbers that encode the weights of one step's taps.
struct Levels {
  TriangleWeights weights;
  int64_t count;  ///< numbers of each step

  explicit Levels(TriangleWeights w) : weights(w), count(w == TriangleWeights::quads ? 3 : 2) {}

  /// Packs the i-th number of all steps.
  void pack(const ResizeAxis& axis, int64_t i, uint32_t* by_position) const {
    const int64_t step = i / count, level = i % count;
    if (weights == TriangleWeights::quads)
      pack_quads(axis, step, static_cast<int>(level), by_position);
    else
      pack_pairs(axis, step, level == 0 ? kSplit : 0, level == 0 ? 16 : kSplit, by_position);
  }
};

constexpr int kKeptBits = kLinearBits - 4;  // bits after the point between the passes

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
    for (int64_t k = 0; k < axis.taps; ++k)
      sum += (rows[k][i] * axis.fixed[static_cast<size_t>(k * axis.outputs + y)]) >> 16;
    out[i] = static_cast<uint8_t>(sum >> 2);
  }
}

/// The kernels along the rows, and the packing of their weights.
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
      four[0] |= (weight >> kSplit & 0xffff) << shift;
      four[2] |= (weight & ((1U << kSplit) - 1)) << shift;
    }
  }
  const int64_t furthest = std::max(wide_firsts_.front(), wide_firsts_.back());
  bytes_read_ = furthest + (wide_steps_ - 1) * 12 + 16;
}

void TriangleAcross::prepare(const ResizeAxis& axis, int64_t channels, bool flip) {
  axis_ = &axis, channels_ = channels, flip_ = flip;
  const TriangleKernels& kernels = triangle_kernels();
  for (const auto& kernel : kernels.across) {
    const bool quads = kernel.weights == TriangleWeights::quads;
    const auto bytes = quads ? LaneBytes::four : LaneBytes::two;
    if (!lanes_.make(axis, channels, flip, bytes, kernel.lanes, kernel.window_bytes)) continue;
    const Levels levels(kernel.weights);
    lanes_.fill_weights(axis, channels, flip, levels.count,
                        [&](int64_t i, uint32_t* to) { levels.pack(axis, i, to); });
    kernel_ = &kernel, bytes_read_ = lanes_.bytes_read;
    return;
  }
  kernel_ = nullptr, wide_ = channels == 3 ? kernels.across_wide : nullptr;
  if (wide_ != nullptr) return prepare_wide();
  bytes_read_ = axis.length * channels;
}

void TriangleAcross::run(const uint8_t* in, uint8_t* out) const {
  const int64_t n = axis_->outputs;
  if (kernel_ != nullptr) return kernel_->run(lanes_, in, n * channels_, out);
  if (wide_ != nullptr)
    return wide_(wide_firsts_.data(), wide_weights_.data(), wide_steps_, n, in, out);
  (channels_ == 3 ? triangle_across<3> : triangle_across<1>)(*axis_, flip_, in, out);
}

void TriangleDown::prepare(const ResizeAxis& axis) {
  axis_ = &axis;
  const TriangleKernels& kernels = triangle_kernels();
  const bool quads = kernels.down_quads != nullptr && axis.taps != 2;
  kernel_ = quads ? kernels.down_quads : kernels.down_pairs;
  if (kernel_ == nullptr) return;
  const Levels levels(quads ? TriangleWeights::quads : TriangleWeights::pairs);
  const int64_t taps = quads ? 4 : 2, n = axis.outputs;
  row_weights_ = (axis.taps + taps - 1) / taps * levels.count;
  weights_.resize(static_cast<size_t>(n * row_weights_));
  by_position_.resize(static_cast<size_t>(n));
  for (int64_t i = 0; i < row_weights_; ++i) {
    levels.pack(axis, i, by_position_.data());
    for (int64_t y = 0; y < n; ++y)
      weights_[static_cast<size_t>(y * row_weights_ + i)] = by_position_[static_cast<size_t>(y)];
  }
}

void TriangleDown::run(const uint8_t* const* rows, int64_t y, int64_t n, uint8_t* out) const {
  if (kernel_ == nullptr) return sum_down(*axis_, axis_->fixed, rows, y, n, kHalf, to_byte, out);
  kernel_(rows, axis_->taps, weights_.data() + y * row_weights_, n, out);
}

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

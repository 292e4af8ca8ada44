// The input positions and weights of each output position of a resize, for one axis and each kind
// of arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace composer {

enum class AxisKind {
  triangle,  ///< Pillow's BILINEAR: fixed point, kTriangleBits bits after the point
  bicubic,   ///< Pillow's BICUBIC (Keys 1981, a = -0.5): alike; some weights are negative
  linear,    ///< OpenCV's INTER_AREA where it enlarges: fixed point, 11 bits, two taps
  box,       ///< OpenCV's INTER_AREA where it shrinks: float
};

inline constexpr int kTriangleBits = 22;
inline constexpr int kLinearBits = 11;

/// The parameters of an axis, in pixels.
struct AxisRequest {
  AxisKind kind = AxisKind::triangle;
  int64_t input = 0;  ///< length of the image
  double begin = 0;   ///< start of the part; whole numbers for linear and box
  double extent = 0;
  int64_t output = 0;        ///< length of the result
  int64_t window_begin = 0;  ///< start of the wanted part of the result
  int64_t window = 0;
  bool operator==(const AxisRequest&) const = default;
};

/// For each output position x of the window and each k < taps: input position begin + first[x] + k
/// weighs fixed[k * outputs + x], or real[...] for box. No position reaches past `length`.
struct ResizeAxis {
  AxisRequest request;
  int64_t outputs = 0;
  int64_t begin = 0, length = 0;  ///< the input positions with a weight
  int64_t taps = 0;
  bool identity = false;  ///< every output position is the input position first[x]
  std::vector<int32_t> first;
  std::vector<int32_t> fixed;
  std::vector<float> real;

  /// Does nothing when the axis was made from the same request.
  void make(const AxisRequest& wanted);

 private:
  void make_pillow();
  void make_linear();
  void make_box();
  template <class Weight>
  void settle(std::vector<Weight>& weights);

  std::vector<int32_t> count_;
  std::vector<double> center_, exact_, sum_;
};

/// The pass along the rows without vector instructions. weights: of the axis; each sum begins with
/// `start` and is written as convert(sum), mirrored when flipped.
template <int channels, class Weight, class Value, class Convert>
void sum_across(const ResizeAxis& axis, const std::vector<Weight>& weights, bool flip,
                const uint8_t* in, Weight start, Convert convert, Value* out) {
  const int64_t n = axis.outputs, step = flip ? -channels : channels;
  Value* to = flip ? out + (n - 1) * channels : out;
  for (int64_t x = 0; x < n; ++x, to += step) {
    const uint8_t* from = in + axis.first[static_cast<size_t>(x)] * channels;
    const Weight* weight = weights.data() + x;
    Weight sum[channels];
    for (int c = 0; c < channels; ++c) sum[c] = start;
    for (int64_t k = 0; k < axis.taps; ++k, from += channels, weight += n)
      for (int c = 0; c < channels; ++c) sum[c] += static_cast<Weight>(from[c]) * *weight;
    for (int c = 0; c < channels; ++c) to[c] = convert(sum[c]);
  }
}

/// The pass across the rows without vector instructions: output row y, of n values.
template <class Weight, class Value, class Convert>
void sum_down(const ResizeAxis& axis, const std::vector<Weight>& weights, const Value* const* rows,
              int64_t y, int64_t n, Weight start, Convert convert, uint8_t* out) {
  for (int64_t i = 0; i < n; ++i) {
    Weight sum = start;
    for (int64_t k = 0; k < axis.taps; ++k)
      sum += rows[k][i] * weights[static_cast<size_t>(k * axis.outputs + y)];
    out[i] = convert(sum);
  }
}

}  // namespace composer

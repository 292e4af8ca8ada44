// Which input positions weigh in at each output position of a resize, and how much: one axis at a
// time, for each of the three kinds of arithmetic.
#pragma once

#include <cstdint>
#include <vector>

namespace composer {

enum class AxisKind {
  triangle,  ///< Pillow's BILINEAR: fixed point, kTriangleBits bits after the point
  linear,    ///< OpenCV's INTER_AREA where it enlarges: fixed point, 11 bits, two taps
  box,       ///< OpenCV's INTER_AREA where it shrinks: float
};

inline constexpr int kTriangleBits = 22;
inline constexpr int kLinearBits = 11;

/// What an axis is made from, in pixels.
struct AxisRequest {
  AxisKind kind = AxisKind::triangle;
  int64_t input = 0;  ///< length of the image
  double begin = 0;   ///< the part of it; whole numbers but for triangle
  double extent = 0;
  int64_t output = 0;        ///< length of the result
  int64_t window_begin = 0;  ///< the part of the result that is wanted
  int64_t window = 0;
  bool operator==(const AxisRequest&) const = default;
};

/// For each output position x of the window and each k < taps: input position begin + first[x] + k
/// weighs fixed[k * outputs + x], or real[...] for box. No position reaches past `length`.
struct ResizeAxis {
  AxisRequest request;
  int64_t outputs = 0;
  int64_t begin = 0, length = 0;  ///< the input positions that weigh in anywhere
  int64_t taps = 0;
  bool identity = false;  ///< every output position is the input position first[x]
  std::vector<int32_t> first;
  std::vector<int32_t> fixed;
  std::vector<float> real;

  /// Does nothing when the axis was made from the same request.
  void make(const AxisRequest& wanted);

 private:
  void make_triangle();
  void make_linear();
  void make_box();
  template <class Weight>
  void settle(std::vector<Weight>& weights);

  std::vector<int32_t> count_;
  std::vector<double> center_, exact_, sum_;
};

}  // namespace composer

#include "data/pixels/resize_axis.h"

#include <algorithm>
#include <cmath>

#include "base/simd.h"

// Compiled without fused multiply-add (data/CMakeLists.txt): the weights follow Pillow's and
// OpenCV's arithmetic to the last bit.
namespace composer {
namespace {

constexpr double kOne = 1 << kTriangleBits;
constexpr int64_t kMostHeights = 1 << 13;  // heights kept at a time

struct Span {
  double begin, scale, reach;
  int32_t offset, input;
};

/// The first input position and the number of them for each output position.
COMPOSER_CLONES
void pillow_spans(const Span& span, int64_t n, double* center, int32_t* first, int32_t* count) {
  const double begin = span.begin, scale = span.scale, reach = span.reach;
  const int32_t offset = span.offset, input = span.input;
  for (int64_t i = 0; i < n; ++i) {
    center[i] = begin + (static_cast<double>(static_cast<int32_t>(i) + offset) + 0.5) * scale;
    const int32_t low = std::max(static_cast<int32_t>(center[i] - reach + 0.5), 0);
    const int32_t high = std::min(static_cast<int32_t>(center[i] + reach + 0.5), input);
    first[i] = low, count[i] = high - low;
  }
}

/// exact: the triangle's height at tap k, which is added to sum.
COMPOSER_CLONES
void triangle_heights(int32_t k, double shrink, int64_t n, const double* center,
                      const int32_t* first, const int32_t* count, double* exact, double* sum) {
  for (int64_t i = 0; i < n; ++i) {
    const double distance =
        std::abs((static_cast<double>(first[i] + k) - center[i] + 0.5) * shrink);
    const double height = 1.0 - distance;
    const double inside = distance < 1.0 ? height : 0.0;
    exact[i] = k < count[i] ? inside : 0.0;
    sum[i] += exact[i];
  }
}

/// The same for the bicubic filter.
COMPOSER_CLONES
void bicubic_heights(int32_t k, double shrink, int64_t n, const double* center,
                     const int32_t* first, const int32_t* count, double* exact, double* sum) {
  constexpr double a = -0.5;
  for (int64_t i = 0; i < n; ++i) {
    const double x = std::abs((static_cast<double>(first[i] + k) - center[i] + 0.5) * shrink);
    const double near = ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
    const double far = (((x - 5.0) * x + 8.0) * x - 4.0) * a;
    const double height = x < 1.0 ? near : x < 2.0 ? far : 0.0;
    exact[i] = k < count[i] ? height : 0.0;
    sum[i] += exact[i];
  }
}

COMPOSER_CLONES
void pillow_weights(int64_t n, const double* exact, const double* sum, int32_t* weights) {
  for (int64_t i = 0; i < n; ++i) {
    const double divisor = sum[i] != 0.0 ? sum[i] : 1.0;
    const double half = exact[i] / divisor < 0.0 ? -0.5 : 0.5;
    weights[i] = static_cast<int32_t>(half + exact[i] / divisor * kOne);
  }
}

int32_t round_to_int(float value) { return static_cast<int32_t>(std::lrintf(value)); }

}  // namespace

/// Moves back taps that reach past the last input position, and makes positions relative to the
/// first.
template <class Weight>
void ResizeAxis::settle(std::vector<Weight>& weights) {
  const auto n = static_cast<size_t>(outputs);
  const int32_t origin = first.front();
  const int32_t end = first.back() + count_.back(), slots = static_cast<int32_t>(taps);
  begin = origin, length = end - origin;
  for (size_t i = 0; i < n; ++i) {
    const int32_t shift = first[i] + slots - end;
    if (shift > 0) {
      for (int32_t k = slots; k-- > 0;) {
        weights[static_cast<size_t>(k) * n + i] =
            k < shift ? Weight{0} : weights[static_cast<size_t>(k - shift) * n + i];
      }
      first[i] -= shift;
    }
    first[i] -= origin;
  }
}

void ResizeAxis::make_pillow() {
  // Pillow takes the box as floats.
  const auto low = static_cast<float>(request.begin);
  const float extent = static_cast<float>(request.begin + request.extent) - low;
  const double scale = static_cast<double>(extent) / static_cast<double>(request.output);
  const auto n = static_cast<size_t>(outputs);
  identity = extent == static_cast<float>(request.output) && low == std::floor(low);
  const bool bicubic = request.kind == AxisKind::bicubic && !identity;
  const double stretch = std::max(scale, 1.0), reach = bicubic ? 2.0 * stretch : stretch;
  const auto heights = bicubic ? bicubic_heights : triangle_heights;
  center_.resize(n);
  pillow_spans({low, scale, reach, static_cast<int32_t>(request.window_begin),
                static_cast<int32_t>(request.input)},
               outputs, center_.data(), first.data(), count_.data());
  if (identity) std::fill(count_.begin(), count_.end(), 1);
  taps = *std::max_element(count_.begin(), count_.end());
  fixed.resize(n * static_cast<size_t>(taps));
  sum_.assign(n, 0.0);
  // In blocks of outputs, since an image that shrinks a lot has very many taps.
  const auto block =
      static_cast<size_t>(std::min(std::max<int64_t>(kMostHeights / taps, 16), outputs));
  exact_.resize(block * static_cast<size_t>(taps));
  for (size_t i = 0; i < n; i += block) {
    const auto length = static_cast<int64_t>(std::min(block, n - i));
    for (size_t k = 0; k < static_cast<size_t>(taps); ++k) {
      heights(static_cast<int32_t>(k), 1.0 / stretch, length, center_.data() + i, first.data() + i,
              count_.data() + i, exact_.data() + k * block, sum_.data() + i);
    }
    for (size_t k = 0; k < static_cast<size_t>(taps); ++k) {
      pillow_weights(length, exact_.data() + k * block, sum_.data() + i, fixed.data() + k * n + i);
    }
  }
  settle(fixed);
}

void ResizeAxis::make_linear() {
  // Not output / input and input / output: the two divisions in a row matter at whole numbers.
  const double inverse = static_cast<double>(request.output) / request.extent;
  const double scale = 1.0 / inverse;
  const auto n = static_cast<size_t>(outputs);
  const auto start = static_cast<int32_t>(request.begin);
  const auto last = static_cast<int32_t>(request.extent) - 1;
  taps = 1;
  fixed.resize(n * 2);
  for (size_t i = 0; i < n; ++i) {
    const int64_t d = static_cast<int64_t>(i) + request.window_begin;
    auto at = static_cast<int32_t>(static_cast<double>(d) * scale);
    auto part = static_cast<float>(static_cast<double>(d + 1) - (at + 1) * inverse);
    part = part <= 0 ? 0.0F : part - static_cast<float>(static_cast<int32_t>(part));
    if (at >= last) at = last, part = 0;
    first[i] = start + at, count_[i] = at < last ? 2 : 1;
    fixed[i] = round_to_int((1.0F - part) * (1 << kLinearBits));
    fixed[n + i] = round_to_int(part * (1 << kLinearBits));
    taps = std::max<int64_t>(taps, count_[i]);
  }
  settle(fixed);
}

void ResizeAxis::make_box() {
  const double inverse = static_cast<double>(request.output) / request.extent;
  const double scale = 1.0 / inverse;
  const auto n = static_cast<size_t>(outputs);
  const auto start = static_cast<int32_t>(request.begin);
  const auto input = static_cast<int32_t>(request.extent);
  constexpr double kLeast = 1e-3;  // the least width of a partial pixel that counts
  const auto slots = static_cast<size_t>(scale) + 3;
  real.assign(n * slots, 0.0F);
  taps = 0;
  for (size_t i = 0; i < n; ++i) {
    const double low = static_cast<double>(static_cast<int64_t>(i) + request.window_begin) * scale;
    const double high = low + scale;
    const double cell = std::min(scale, static_cast<double>(input) - low);
    const auto below = static_cast<int32_t>(low);
    const int32_t to = std::min(static_cast<int32_t>(high), input - 1);
    const int32_t from = std::min(below + (static_cast<double>(below) < low ? 1 : 0), to);
    int32_t k = 0;
    const auto add = [&](double weight) {
      real[static_cast<size_t>(k++) * n + i] = static_cast<float>(weight);
    };
    const bool partial_start = static_cast<double>(from) - low > kLeast;
    first[i] = start + (partial_start ? from - 1 : from);
    if (partial_start) add((static_cast<double>(from) - low) / cell);
    const double whole = 1.0 / cell;
    for (int32_t x = from; x < to; ++x) add(whole);
    const double rest = high - static_cast<double>(to);
    if (rest > kLeast) add(std::min(std::min(rest, 1.0), cell) / cell);
    count_[i] = k;
    taps = std::max<int64_t>(taps, k);
  }
  real.resize(n * static_cast<size_t>(taps));
  settle(real);
}

void ResizeAxis::make(const AxisRequest& wanted) {
  if (wanted == request) return;
  request = wanted;
  outputs = wanted.window;
  identity = false;
  first.resize(static_cast<size_t>(outputs)), count_.resize(static_cast<size_t>(outputs));
  switch (wanted.kind) {
    case AxisKind::triangle:
    case AxisKind::bicubic:
      return make_pillow();
    case AxisKind::linear:
      return make_linear();
    case AxisKind::box:
      return make_box();
  }
}

}  // namespace composer

#include "inference/largest_simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "inference/largest_simd.cpp"
#include "hwy/foreach_target.h"

// After foreach_target.h
#include <algorithm>
#include <limits>
#include <type_traits>

#include "base/vectors_inl.h"

HWY_BEFORE_NAMESPACE();
namespace composer::HWY_NAMESPACE {
namespace {

/// The largest values of the channels that `load` reads at once, from `channel` on.
template <class T, class Load, class Larger>
HWY_INLINE auto fold(const PixelWindow<T>& window, int64_t channel, const Load& load,
                     const Larger& larger) {
  auto largest = load(window.first + channel);
  for (int64_t y = 0; y < window.rows; ++y)
    for (int64_t x = 0; x < window.columns; ++x)
      largest = larger(
          largest, load(window.first + y * window.row_stride + x * window.column_stride + channel));
  return largest;
}

template <class T>
bool is_empty(const PixelWindow<T>& window, T* largest) {
  if (window.rows > 0 && window.columns > 0) return false;
  std::fill_n(largest, window.channels,
              std::is_same_v<T, float> ? -std::numeric_limits<T>::infinity() : T{0});
  return true;
}

template <class T>
void largest_one_by_one(const PixelWindow<T>& window, T* largest) {
  for (int64_t c = 0; c < window.channels; ++c)
    largest[c] = fold(
        window, c, [](const T* from) { return *from; },
        [](T a, T b) { return a >= b || a != a ? a : b; });
}

#if COMPOSER_HAS_VECTORS

template <class T>
void largest_of(const PixelWindow<T>& window, T* largest) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  if (window.channels < lanes) return largest_one_by_one(window, largest);
  for (int64_t c = 0; c < window.channels; c += lanes) {
    const int64_t channel = std::min(c, window.channels - lanes);
    const auto best = fold(
        window, channel, [d](const T* from) { return hn::LoadU(d, from); },
        [](auto a, auto b) {
          if constexpr (std::is_same_v<T, float>)
            return hn::IfThenElse(hn::Or(hn::Ge(a, b), hn::IsNaN(a)), a, b);
          else
            return hn::Max(a, b);
        });
    hn::StoreU(best, d, largest + channel);
  }
}

#else

template <class T>
void largest_of(const PixelWindow<T>& window, T* largest) {
  largest_one_by_one(window, largest);
}

#endif

void largest_bytes(const PixelWindow<uint8_t>& window, uint8_t* largest) {
  if (!is_empty(window, largest)) largest_of(window, largest);
}
void largest_floats(const PixelWindow<float>& window, float* largest) {
  if (!is_empty(window, largest)) largest_of(window, largest);
}

}  // namespace
}  // namespace composer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace composer {

HWY_EXPORT(largest_bytes);
HWY_EXPORT(largest_floats);

void largest_values(const PixelWindow<uint8_t>& window, uint8_t* largest) {
  HWY_DYNAMIC_DISPATCH(largest_bytes)(window, largest);
}
void largest_values(const PixelWindow<float>& window, float* largest) {
  HWY_DYNAMIC_DISPATCH(largest_floats)(window, largest);
}

}  // namespace composer
#endif

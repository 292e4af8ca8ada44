#include "inference/largest_bytes_simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "inference/largest_bytes_simd.cpp"
#include "hwy/foreach_target.h"

// After foreach_target.h
#include "composer/vectors_inl.h"

HWY_BEFORE_NAMESPACE();
namespace composer::HWY_NAMESPACE {
namespace {

#if COMPOSER_HAS_VECTORS

void largest_of_window(const ByteWindow& window, uint8_t* largest) {
  const hn::ScalableTag<uint8_t> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t c = 0; c < window.channels; c += lanes) {
    const int64_t left = window.channels - c;
    auto best = hn::Zero(d);
    for (int64_t y = 0; y < window.rows; ++y)
      for (int64_t x = 0; x < window.columns; ++x) {
        const auto* const pixel =
            window.first + y * window.row_stride + x * window.column_stride + c;
        best = hn::Max(best, load_first(d, pixel, left));
      }
    store_first(best, left, largest + c);
  }
}

#else

void largest_of_window(const ByteWindow& window, uint8_t* largest) {
  for (int64_t c = 0; c < window.channels; ++c) {
    largest[c] = 0;
    for (int64_t y = 0; y < window.rows; ++y)
      for (int64_t x = 0; x < window.columns; ++x) {
        const uint8_t byte = window.first[y * window.row_stride + x * window.column_stride + c];
        largest[c] = largest[c] < byte ? byte : largest[c];
      }
  }
}

#endif

}  // namespace
}  // namespace composer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace composer {

HWY_EXPORT(largest_of_window);

void largest_bytes(const ByteWindow& window, uint8_t* largest) {
  HWY_DYNAMIC_DISPATCH(largest_of_window)(window, largest);
}

}  // namespace composer
#endif

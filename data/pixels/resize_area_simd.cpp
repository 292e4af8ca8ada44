#include "data/pixels/resize_simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "data/pixels/resize_area_simd.cpp"
#include "hwy/foreach_target.h"

// After foreach_target.h
#include "data/pixels/lanes_inl.h"

// Compiled without fused multiply-add: equal to OpenCV to the last bit.
HWY_BEFORE_NAMESPACE();
namespace composer::HWY_NAMESPACE {
namespace {

#if COMPOSER_HAS_VECTORS

constexpr int kDropped = 4;  // bits of a linear sum between the passes

template <class Windows>
void linear_across(const Lanes& lanes, const uint8_t* in, int16_t* out) {
  const hn::Repartition<int16_t, typename Windows::Bytes> d;
  constexpr auto sums = static_cast<int64_t>(hn::MaxLanes(d) / 2);
  const auto sum = [&](int64_t value) HWY_ATTR {
    const auto pixels = Windows::template read<LaneBytes::two>(lanes, value, 0, in);
    const auto* weights = reinterpret_cast<const int16_t*>(lanes.weights.data() + value);
    return hn::ShiftRight<kDropped>(multiply_pairs(hn::BitCast(d, pixels), hn::LoadU(d, weights)));
  };
  for (int64_t i = 0; i < lanes.values; i += 2 * sums)
    hn::StoreU(in_order<2>(hn::ReorderDemote2To(d, sum(i), sum(i + sums))), d, out + i);
}

void linear_down(const int16_t* const rows[2], const int32_t weights[2], int64_t n, uint8_t* out) {
  const hn::ScalableTag<int16_t> d;
  const hn::ScalableTag<uint16_t> unsigned_d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto above = hn::Set(d, static_cast<int16_t>(weights[0]));
  const auto below = hn::Set(d, static_cast<int16_t>(weights[1]));
  const auto two = hn::Set(d, int16_t{2});
  const auto words = [&](int64_t i) HWY_ATTR {
    const auto a = hn::MulHigh(hn::LoadU(d, rows[0] + i), above);
    const auto b = hn::MulHigh(hn::LoadU(d, rows[1] + i), below);
    const auto sum = hn::Add(hn::Add(a, b), two);
    return hn::BitCast(d, hn::ShiftRight<2>(hn::BitCast(unsigned_d, sum)));
  };
  for (int64_t i = 0; i < n; i += 2 * lanes)
    store_first(in_order<2>(pack_words(words(i), words(i + lanes))), n - i, out + i);
}

template <class Windows>
void box_across(const Lanes& lanes, const uint8_t* in, float* out) {
  const hn::Repartition<float, typename Windows::Bytes> d;
  const hn::RebindToSigned<decltype(d)> d32;
  constexpr auto sums = static_cast<int64_t>(hn::MaxLanes(d));
  for (int64_t i = 0; i < lanes.values; i += sums) {
    const auto* weight = reinterpret_cast<const float*>(lanes.weights.data()) + i;
    auto sum = hn::Zero(d);
    int64_t at = 0;
    for (int64_t k = 0; k < lanes.steps; ++k, at += lanes.step_bytes, weight += lanes.values) {
      const auto pixels = Windows::template read<LaneBytes::one>(lanes, i, at, in);
      const auto numbers = hn::ConvertTo(d, hn::BitCast(d32, pixels));
      sum = hn::Add(sum, hn::Mul(numbers, hn::LoadU(d, weight)));
    }
    hn::StoreU(sum, d, out + i);
  }
}

void box_down(const float* const* rows, int64_t taps, const float* weights, int64_t weight_stride,
              int64_t n, uint8_t* out) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < n; i += 4 * lanes) {
    auto a = hn::Zero(d), b = a, c = a, e = a;
    for (int64_t k = 0; k < taps; ++k) {
      const auto weight = hn::Set(d, weights[k * weight_stride]);
      const float* const row = rows[k] + i;
      a = hn::Add(a, hn::Mul(hn::LoadU(d, row), weight));
      b = hn::Add(b, hn::Mul(hn::LoadU(d, row + lanes), weight));
      c = hn::Add(c, hn::Mul(hn::LoadU(d, row + 2 * lanes), weight));
      e = hn::Add(e, hn::Mul(hn::LoadU(d, row + 3 * lanes), weight));
    }
    store_first(
        pack_bytes(to_nearest_int(a), to_nearest_int(b), to_nearest_int(c), to_nearest_int(e)),
        n - i, out + i);
  }
}

template <class Windows, class Value>
constexpr AcrossKernel<Value> across(void (*run)(const Lanes&, const uint8_t*, Value*)) {
  return {Windows::lanes, Windows::bytes, run};
}

constexpr AcrossKernel<int16_t> kLinearAcross[] = {
#if HWY_TARGET == HWY_AVX3_DL
    across<WideWindows>(linear_across<WideWindows>),
#endif
    across<NarrowWindows>(linear_across<NarrowWindows>)};

constexpr AcrossKernel<float> kBoxAcross[] = {
#if HWY_TARGET == HWY_AVX3_DL
    across<WideWindows>(box_across<WideWindows>),
#endif
    across<NarrowWindows>(box_across<NarrowWindows>)};

constexpr AreaKernels kKernels{kLinearAcross, linear_down, kBoxAcross, box_down};

#else

constexpr AreaKernels kKernels{};

#endif

const AreaKernels& kernels() { return kKernels; }

}  // namespace
}  // namespace composer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace composer {

HWY_EXPORT(kernels);

const AreaKernels& area_kernels() { return HWY_DYNAMIC_DISPATCH(kernels)(); }

}  // namespace composer
#endif

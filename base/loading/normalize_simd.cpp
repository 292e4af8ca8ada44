#include "base/loading/normalize_simd.h"

#include <bit>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "base/loading/normalize_simd.cpp"
#include "hwy/foreach_target.h"

// After foreach_target.h
#include "base/vectors_inl.h"

// Compiled without fused multiply-add: the same bits on every processor.
HWY_BEFORE_NAMESPACE();
namespace composer::HWY_NAMESPACE {
namespace {

HWY_INLINE float scaled(uint8_t value, float scale, float shift) {
  return static_cast<float>(static_cast<int32_t>(value)) * scale + shift;
}

#if COMPOSER_HAS_VECTORS

using Floats = hn::ScalableTag<float>;
constexpr auto lanes = static_cast<int64_t>(hn::MaxLanes(Floats()));

HWY_INLINE hn::VFromD<Floats> scaled(const uint8_t* in, const float* scale, const float* shift) {
  const Floats d;
  const hn::Rebind<int32_t, Floats> d32;
  const auto bytes = hn::LoadU(hn::Rebind<uint8_t, Floats>(), in);
  const auto values = hn::ConvertTo(d, hn::PromoteTo(d32, bytes));
  return hn::Add(hn::Mul(values, hn::LoadU(d, scale)), hn::LoadU(d, shift));
}

/// bfloat16 in 32 bits, rounded to the nearest, halves to even. Highway's conversion truncates.
HWY_INLINE auto to_bf16(hn::VFromD<Floats> value) {
  const hn::Rebind<int32_t, Floats> d;
  const auto bits = hn::BitCast(d, value);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1));
  // An arithmetic shift, so that packing clamps no number.
  return hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(d, 0x7FFF))));
}

HWY_INLINE int64_t floats_of(const uint8_t* in, int64_t n, const float* scale, const float* shift,
                             float* out) {
  int64_t i = 0;
  for (; i <= n - lanes; i += lanes) {
    hn::StoreU(scaled(in + i, scale + i, shift + i), Floats(), out + i);
  }
  return i;
}

HWY_INLINE int64_t halves_of(const uint8_t* in, int64_t n, const float* scale, const float* shift,
                             uint16_t* out) {
  const hn::Repartition<int16_t, Floats> d16;
  int64_t i = 0;
  for (; i <= n - 2 * lanes; i += 2 * lanes) {
    const int64_t j = i + lanes;
    const auto low = to_bf16(scaled(in + i, scale + i, shift + i));
    const auto high = to_bf16(scaled(in + j, scale + j, shift + j));
    hn::StoreU(in_order<2>(hn::ReorderDemote2To(d16, low, high)), d16,
               reinterpret_cast<int16_t*>(out + i));
  }
  return i;
}

#else

int64_t floats_of(const uint8_t*, int64_t, const float*, const float*, float*) { return 0; }
int64_t halves_of(const uint8_t*, int64_t, const float*, const float*, uint16_t*) { return 0; }

#endif

void to_floats(const uint8_t* in, int64_t n, const float* scale, const float* shift, float* out) {
  for (int64_t i = floats_of(in, n, scale, shift, out); i < n; ++i) {
    out[i] = scaled(in[i], scale[i], shift[i]);
  }
}

void to_halves(const uint8_t* in, int64_t n, const float* scale, const float* shift,
               uint16_t* out) {
  for (int64_t i = halves_of(in, n, scale, shift, out); i < n; ++i) {
    const auto bits = std::bit_cast<uint32_t>(scaled(in[i], scale[i], shift[i]));
    out[i] = static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
  }
}

}  // namespace
}  // namespace composer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace composer {

HWY_EXPORT(to_floats);
HWY_EXPORT(to_halves);

void scale_to_float(const uint8_t* in, int64_t n, const float* scale, const float* shift,
                    float* out) {
  HWY_DYNAMIC_DISPATCH(to_floats)(in, n, scale, shift, out);
}

void scale_to_bf16(const uint8_t* in, int64_t n, const float* scale, const float* shift,
                   uint16_t* out) {
  HWY_DYNAMIC_DISPATCH(to_halves)(in, n, scale, shift, out);
}

}  // namespace composer
#endif

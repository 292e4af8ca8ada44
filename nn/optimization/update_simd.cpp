#include <bit>
#include <cmath>

#include "nn/optimization/update_pass.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nn/optimization/update_simd.cpp"
#include "hwy/foreach_target.h"

// After foreach_target.h
#include "base/vectors_inl.h"

HWY_BEFORE_NAMESPACE();
namespace composer::HWY_NAMESPACE {
namespace {

constexpr int32_t quiet_nan = 0x7FC0;  // NaN in bfloat16

// Each formula is written once, for single numbers and for vectors.
struct Number {};

HWY_INLINE float load(Number, const float* from) { return *from; }
HWY_INLINE float all(Number, float value) { return value; }
HWY_INLINE void store(Number, float value, float* to) { *to = value; }
HWY_INLINE float add(float a, float b) { return a + b; }
HWY_INLINE float sub(float a, float b) { return a - b; }
HWY_INLINE float mul(float a, float b) { return a * b; }
HWY_INLINE float div(float a, float b) { return a / b; }
HWY_INLINE float larger(float a, float b) { return a > b ? a : b; }
HWY_INLINE float root_of(float a) { return std::sqrt(a); }

/// a * b + c as in the target's vectors: with one rounding where they have such an instruction.
HWY_INLINE float mul_add(float a, float b, float c) {
#if COMPOSER_HAS_VECTORS && HWY_NATIVE_FMA
  return std::fma(a, b, c);
#else
  return a * b + c;
#endif
}

HWY_INLINE void store_rounded(Number, float value, uint16_t* to) {
  const auto bits = std::bit_cast<uint32_t>(value);
  *to =
      static_cast<uint16_t>(value != value ? quiet_nan : (bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

#if COMPOSER_HAS_VECTORS

using Floats = hn::ScalableTag<float>;
using Vector = hn::VFromD<Floats>;
constexpr auto lanes = static_cast<int64_t>(hn::MaxLanes(Floats()));

HWY_INLINE Vector load(Floats d, const float* from) { return hn::LoadU(d, from); }
HWY_INLINE Vector all(Floats d, float value) { return hn::Set(d, value); }
HWY_INLINE void store(Floats d, Vector value, float* to) { hn::StoreU(value, d, to); }
HWY_INLINE Vector add(Vector a, Vector b) { return hn::Add(a, b); }
HWY_INLINE Vector sub(Vector a, Vector b) { return hn::Sub(a, b); }
HWY_INLINE Vector mul(Vector a, Vector b) { return hn::Mul(a, b); }
HWY_INLINE Vector div(Vector a, Vector b) { return hn::Div(a, b); }
HWY_INLINE Vector larger(Vector a, Vector b) { return hn::IfThenElse(hn::Gt(a, b), a, b); }
HWY_INLINE Vector root_of(Vector a) { return hn::Sqrt(a); }
HWY_INLINE Vector mul_add(Vector a, Vector b, Vector c) { return hn::MulAdd(a, b, c); }

HWY_INLINE void store_rounded(Floats d, Vector value, uint16_t* to) {
  const hn::Rebind<int32_t, Floats> d32;
  const hn::Rebind<int16_t, Floats> d16;
  const auto bits = hn::BitCast(d32, value);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d32, 1));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(d32, 0x7FFF))));
  const auto number = hn::RebindMask(d32, hn::Eq(value, value));
  const auto result = hn::IfThenElse(number, rounded, hn::Set(d32, quiet_nan));
  // Narrowing signed numbers does not clamp here.
  hn::StoreU(hn::DemoteTo(d16, result), d16, reinterpret_cast<int16_t*>(to));
}

#endif

/// from + share * (to - from), computed from the nearer end.
template <class D>
HWY_INLINE auto between(D d, float share, auto from, auto to) {
  const auto way = sub(to, from);
  return share < 0.5f ? add(from, mul(all(d, share), way)) : add(to, mul(all(d, share - 1), way));
}

/// The same with LibTorch's rounding (at::lerp).
template <class D>
HWY_INLINE auto lerp(D d, float share, auto from, auto to) {
  const auto way = sub(to, from);
  return share < 0.5f ? mul_add(all(d, share), way, from) : mul_add(all(d, share - 1), way, to);
}

template <class D>
HWY_INLINE auto updated(D d, const SgdRule& rule, const UpdateSpan& span, int64_t i) {
  const auto weight = load(d, span.weight + i);
  const auto decayed = add(load(d, span.gradient + i), mul(all(d, rule.decay), weight));
  auto way = decayed;
  if (rule.momentum != 0) {
    const auto momentum = all(d, rule.momentum);
    const auto kept =
        add(mul(momentum, load(d, span.state[0] + i)), mul(all(d, rule.gradient_share), decayed));
    store(d, kept, span.state[0] + i);
    way = rule.nesterov ? add(decayed, mul(momentum, kept)) : kept;
  }
  return sub(mul(all(d, rule.shrink), weight), mul(all(d, rule.lr), way));
}

template <class D>
HWY_INLINE auto updated(D d, const AdamRule& rule, const UpdateSpan& span, int64_t i) {
  const auto weight = load(d, span.weight + i);
  const auto gradient = add(load(d, span.gradient + i), mul(all(d, rule.decay), weight));
  const auto mean = between(d, rule.mean_share, load(d, span.state[0] + i), gradient);
  store(d, mean, span.state[0] + i);
  auto square = add(mul(all(d, rule.beta2), load(d, span.state[1] + i)),
                    mul(mul(all(d, rule.square_share), gradient), gradient));
  store(d, square, span.state[1] + i);
  if (rule.amsgrad) {
    square = larger(load(d, span.state[2] + i), square);
    store(d, square, span.state[2] + i);
  }
  const auto scale = add(div(root_of(square), all(d, rule.root)), all(d, rule.eps));
  return sub(mul(all(d, rule.shrink), weight), div(mul(all(d, rule.step_size), mean), scale));
}

template <class D>
HWY_INLINE auto updated(D d, const RmspropRule& rule, const UpdateSpan& span, int64_t i) {
  const auto weight = load(d, span.weight + i);
  const auto gradient = add(load(d, span.gradient + i), mul(all(d, rule.decay), weight));
  auto square = add(mul(all(d, rule.alpha), load(d, span.state[0] + i)),
                    mul(mul(all(d, rule.square_share), gradient), gradient));
  store(d, square, span.state[0] + i);
  if (rule.centered) {
    const auto mean = between(d, rule.square_share, load(d, span.state[1] + i), gradient);
    store(d, mean, span.state[1] + i);
    square = larger(sub(square, mul(mean, mean)), all(d, 0));
  }
  auto way = div(gradient, add(root_of(square), all(d, rule.eps)));
  if (rule.momentum != 0) {
    float* const kept = span.state[rule.centered ? 2 : 1] + i;
    way = add(mul(all(d, rule.momentum), load(d, kept)), way);
    store(d, way, kept);
  }
  return sub(weight, mul(all(d, rule.lr), way));
}

template <class D, class Rule>
HWY_INLINE void update_at(D d, const Rule& rule, const UpdateSpan& span, int64_t i) {
  const auto weight = updated(d, rule, span, i);
  store(d, weight, span.weight + i);
  if (span.rounded != nullptr) store_rounded(d, weight, span.rounded + i);
  if (span.average != nullptr) {
    const auto average = load(d, span.average + i);
    store(d, lerp(d, span.average_share, average, weight), span.average + i);
  }
}

template <class Rule>
HWY_INLINE void update_all(const Rule& rule, const UpdateSpan& span) {
  int64_t i = 0;
#if COMPOSER_HAS_VECTORS
  for (; i <= span.size - lanes; i += lanes) update_at(Floats(), rule, span, i);
#endif
  for (; i < span.size; ++i) update_at(Number(), rule, span, i);
}

void by_sgd(const SgdRule& rule, const UpdateSpan& span) { update_all(rule, span); }
void by_adam(const AdamRule& rule, const UpdateSpan& span) { update_all(rule, span); }
void by_rmsprop(const RmspropRule& rule, const UpdateSpan& span) { update_all(rule, span); }

}  // namespace
}  // namespace composer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace composer {

HWY_EXPORT(by_sgd);
HWY_EXPORT(by_adam);
HWY_EXPORT(by_rmsprop);

void update(const SgdRule& rule, const UpdateSpan& span) {
  HWY_DYNAMIC_DISPATCH(by_sgd)(rule, span);
}

void update(const AdamRule& rule, const UpdateSpan& span) {
  HWY_DYNAMIC_DISPATCH(by_adam)(rule, span);
}

void update(const RmspropRule& rule, const UpdateSpan& span) {
  HWY_DYNAMIC_DISPATCH(by_rmsprop)(rule, span);
}

}  // namespace composer
#endif

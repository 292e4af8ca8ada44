#include "nn/network/norm_simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nn/network/norm_forward_simd.cpp"
#include "hwy/foreach_target.h"

// After foreach_target.h
#include "base/vectors_inl.h"
// After vectors_inl.h, which names a target's instructions
#include "nn/network/norm_vectors_inl.h"

HWY_BEFORE_NAMESPACE();
namespace composer::HWY_NAMESPACE {
namespace {

struct MomentsPass {
  const NormRows& rows;
  const NormMoments& all;

  template <class Number, bool part>
  HWY_INLINE void block(const RowSet& set, int64_t column, int64_t n) {
    const auto* input = static_cast<const typename Number::Type*>(all.input);
    const auto centre = columns<Number, part>(all.centre + column, n);
    auto sum = set.first == 0 ? zeros() : columns<Number, part>(all.sum + column, n);
    auto squares = set.first == 0 ? zeros() : columns<Number, part>(all.squares + column, n);
    for (int64_t i = 0; i < set.count; ++i) {
      const int64_t at = (set.first + i * set.apart) * rows.stride + column;
      const auto distance = load<Number, part>(input + at, n) - centre;
      sum = sum + distance;
      squares = mul_add(distance, distance, squares);
    }
    store_columns<Number, part>(sum, all.sum + column, n);
    store_columns<Number, part>(squares, all.squares + column, n);
  }
};

void moments(const NormRows& rows, const NormMoments& all) {
  over_rows(rows, MomentsPass{rows, all});
}

template <Activation activation>
HWY_INLINE NormVector activated(NormVector z) {
  if constexpr (activation == Activation::relu)
    return hn::IfThenZeroElse(hn::Le(z, hn::Zero(NormTag())), z);
  if constexpr (activation == Activation::gelu) return hn::Mul(z, normal_at(z).below);
  return z;
}

template <Activation activation>
struct ApplyPass {
  const NormRows& rows;
  const NormApply& all;

  template <class Number, bool part>
  HWY_INLINE void block(const RowSet& set, int64_t column, int64_t n) {
    using Type = typename Number::Type;
    const auto scale = columns<Number, part>(all.scale + column, n);
    const auto shift = columns<Number, part>(all.shift + column, n);
    for (int64_t i = 0; i < set.count; ++i) {
      const int64_t at = (set.first + i * set.apart) * rows.stride + column;
      auto z =
          mul_add(load<Number, part>(static_cast<const Type*>(all.input) + at, n), scale, shift);
      if (all.residual != nullptr)
        z = z + load<Number, part>(static_cast<const Type*>(all.residual) + at, n);
      store<Number, part>({activated<activation>(z.a), activated<activation>(z.b)},
                          static_cast<Type*>(all.output) + at, n);
    }
  }
};

void apply(const NormRows& rows, Activation activation, const NormApply& all) {
  switch (activation) {
    case Activation::none:
      return over_rows(rows, ApplyPass<Activation::none>{rows, all});
    case Activation::relu:
      return over_rows(rows, ApplyPass<Activation::relu>{rows, all});
    case Activation::gelu:
      return over_rows(rows, ApplyPass<Activation::gelu>{rows, all});
  }
}

}  // namespace
}  // namespace composer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace composer {

HWY_EXPORT(moments);
HWY_EXPORT(apply);

void norm_moments(const NormRows& rows, const NormMoments& pass) {
  HWY_DYNAMIC_DISPATCH(moments)(rows, pass);
}

void norm_apply(const NormRows& rows, Activation activation, const NormApply& pass) {
  HWY_DYNAMIC_DISPATCH(apply)(rows, activation, pass);
}

}  // namespace composer
#endif

#include "nn/network/norm_simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nn/network/norm_backward_simd.cpp"
#include "hwy/foreach_target.h"

// After foreach_target.h
#include "base/vectors_inl.h"
// After vectors_inl.h, which names a target's instructions
#include "nn/network/norm_vectors_inl.h"

HWY_BEFORE_NAMESPACE();
namespace composer::HWY_NAMESPACE {
namespace {

/// Gradients where `values` are above `zero` or NaN; else 0.
HWY_INLINE Pair where_more(Pair values, float zero, Pair gradients) {
  const auto least = hn::Set(NormTag(), zero);
  return {hn::IfThenZeroElse(hn::Le(values.a, least), gradients.a),
          hn::IfThenZeroElse(hn::Le(values.b, least), gradients.b)};
}

/// The slope of x * P(X < x): P(X < x) + x * density.
HWY_INLINE NormVector gelu_slope(NormVector z) {
  const auto [below, density] = normal_at(z);
  return hn::MulAdd(z, density, below);
}

/// A slope's parameters for a block of columns.
template <NormSlope slope, class Number, bool part>
struct Sloping {
  static constexpr bool reads_input =
      slope == NormSlope::relu || slope == NormSlope::gelu || slope == NormSlope::gelu_of_rest;
  Pair scale, shift;

  template <class Pass>
  HWY_INLINE Sloping(const Pass& all, int64_t column, int64_t n)
      : scale(reads_input ? columns<Number, part>(all.scale + column, n) : zeros()),
        shift(reads_input ? columns<Number, part>(all.shift + column, n) : zeros()) {}

  /// Gradients before the activation, of n values from offset `at` on.
  HWY_INLINE Pair operator()(Pair gradient, Pair input, const void* rest, int64_t at,
                             int64_t n) const {
    if constexpr (slope == NormSlope::one) return gradient;
    const auto* from = static_cast<const typename Number::Type*>(rest) + at;
    if constexpr (slope == NormSlope::relu_of_rest)
      return where_more(load<Number, part>(from, n), 0, gradient);
    auto z = mul_add(input, scale, shift);
    if constexpr (slope == NormSlope::relu) return where_more(z, Number::zero, gradient);
    if constexpr (slope == NormSlope::gelu_of_rest) z = z + load<Number, part>(from, n);
    return gradient * Pair{gelu_slope(z.a), gelu_slope(z.b)};
  }
};

template <NormSlope slope>
struct SumsPass {
  const NormRows& rows;
  const NormGradientSums& all;

  template <class Number, bool part>
  HWY_INLINE void block(const RowSet& set, int64_t column, int64_t n) {
    using Type = typename Number::Type;
    const auto *inputs = static_cast<const Type*>(all.input),
               *gradients = static_cast<const Type*>(all.gradient),
               *added = static_cast<const Type*>(all.added);
    const Sloping<slope, Number, part> sloping(all, column, n);
    const auto centre = columns<Number, part>(all.centre + column, n);
    auto sum = set.first == 0 ? zeros() : columns<Number, part>(all.sum + column, n);
    auto products = set.first == 0 ? zeros() : columns<Number, part>(all.products + column, n);
    for (int64_t i = 0; i < set.count; ++i) {
      const int64_t at = (set.first + i * set.apart) * rows.stride + column;
      const auto input = inputs == nullptr ? zeros() : load<Number, part>(inputs + at, n);
      auto gradient = load<Number, part>(gradients + at, n);
      if (added != nullptr)
        gradient = Number::as_stored(gradient + load<Number, part>(added + at, n));
      const auto sloped = sloping(gradient, input, all.rest, at, n);
      sum = sum + sloped;
      products = mul_add(sloped, input - centre, products);
      if (all.sloped != nullptr)
        store<Number, part>(sloped, static_cast<Type*>(all.sloped) + at, n);
    }
    store_columns<Number, part>(sum, all.sum + column, n);
    store_columns<Number, part>(products, all.products + column, n);
  }
};

template <NormSlope slope>
struct GradientPass {
  const NormRows& rows;
  const NormGradientApply& all;

  template <class Number, bool part>
  HWY_INLINE void block(const RowSet& set, int64_t column, int64_t n) {
    using Type = typename Number::Type;
    const auto *inputs = static_cast<const Type*>(all.input),
               *gradients = static_cast<const Type*>(all.gradient);
    const bool training = all.tilt != nullptr;
    const Sloping<slope, Number, part> sloping(all, column, n);
    const bool reads_input = training || sloping.reads_input;
    const auto scale = columns<Number, part>(all.scale + column, n);
    const auto centre = training ? columns<Number, part>(all.centre + column, n) : zeros();
    const auto tilt = training ? columns<Number, part>(all.tilt + column, n) : zeros();
    const auto offset = training ? columns<Number, part>(all.offset + column, n) : zeros();
    for (int64_t i = 0; i < set.count; ++i) {
      const int64_t at = (set.first + i * set.apart) * rows.stride + column;
      const auto input = reads_input ? load<Number, part>(inputs + at, n) : zeros();
      const auto sloped = sloping(load<Number, part>(gradients + at, n), input, all.rest, at, n);
      const auto moved =
          training ? mul_add(sloped, scale, mul_add(input - centre, tilt, offset)) : sloped * scale;
      store<Number, part>(moved, static_cast<Type*>(all.input_gradient) + at, n);
    }
  }
};

void gradient_sums(const NormRows& rows, NormSlope slope, const NormGradientSums& all) {
  switch (slope) {
    case NormSlope::one:
      return over_rows(rows, SumsPass<NormSlope::one>{rows, all});
    case NormSlope::relu:
      return over_rows(rows, SumsPass<NormSlope::relu>{rows, all});
    case NormSlope::relu_of_rest:
      return over_rows(rows, SumsPass<NormSlope::relu_of_rest>{rows, all});
    case NormSlope::gelu:
      return over_rows(rows, SumsPass<NormSlope::gelu>{rows, all});
    case NormSlope::gelu_of_rest:
      return over_rows(rows, SumsPass<NormSlope::gelu_of_rest>{rows, all});
  }
}

void gradient_apply(const NormRows& rows, NormSlope slope, const NormGradientApply& all) {
  switch (slope) {
    case NormSlope::relu:
      return over_rows(rows, GradientPass<NormSlope::relu>{rows, all});
    case NormSlope::relu_of_rest:
      return over_rows(rows, GradientPass<NormSlope::relu_of_rest>{rows, all});
    case NormSlope::one:
    case NormSlope::gelu:
    case NormSlope::gelu_of_rest:
      return over_rows(rows, GradientPass<NormSlope::one>{rows, all});
  }
}

}  // namespace
}  // namespace composer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace composer {

HWY_EXPORT(gradient_sums);
HWY_EXPORT(gradient_apply);

void norm_gradient_sums(const NormRows& rows, NormSlope slope, const NormGradientSums& pass) {
  HWY_DYNAMIC_DISPATCH(gradient_sums)(rows, slope, pass);
}

void norm_gradient_apply(const NormRows& rows, NormSlope slope, const NormGradientApply& pass) {
  HWY_DYNAMIC_DISPATCH(gradient_apply)(rows, slope, pass);
}

}  // namespace composer
#endif

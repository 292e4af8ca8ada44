// Rows of float32 or bfloat16 values in vectors of float32, for the passes of norm_simd.h. Included
// once per target, like base/vectors_inl.h.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"
#include "nn/network/norm_simd.h"

#if defined(COMPOSER_NORM_VECTORS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef COMPOSER_NORM_VECTORS_INL_H
#undef COMPOSER_NORM_VECTORS_INL_H
#else
#define COMPOSER_NORM_VECTORS_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace composer::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using NormTag = hn::ScalableTag<float>;
using NormVector = hn::VFromD<NormTag>;
constexpr auto norm_lanes = static_cast<int64_t>(hn::MaxLanes(NormTag()));
/// Columns that are computed at once.
constexpr int64_t norm_block = 2 * norm_lanes;

/// A block of a row. bfloat16, two to 32 bits: a has the even columns, b the odd ones. float32: a
/// has the first half, b the second.
struct Pair {
  NormVector a, b;
};

HWY_INLINE Pair operator+(Pair x, Pair y) { return {hn::Add(x.a, y.a), hn::Add(x.b, y.b)}; }
HWY_INLINE Pair operator-(Pair x, Pair y) { return {hn::Sub(x.a, y.a), hn::Sub(x.b, y.b)}; }
HWY_INLINE Pair operator*(Pair x, Pair y) { return {hn::Mul(x.a, y.a), hn::Mul(x.b, y.b)}; }

/// x * y + z, with one rounding where the CPU has such an instruction.
HWY_INLINE Pair mul_add(Pair x, Pair y, Pair z) {
  return {hn::MulAdd(x.a, y.a, z.a), hn::MulAdd(x.b, y.b, z.b)};
}

HWY_INLINE Pair zeros() { return {hn::Zero(NormTag()), hn::Zero(NormTag())}; }

struct Float32 {
  using Type = float;

  static HWY_INLINE Pair load(const float* from) {
    return {hn::LoadU(NormTag(), from), hn::LoadU(NormTag(), from + norm_lanes)};
  }
  static HWY_INLINE void store(Pair values, float* to) {
    hn::StoreU(values.a, NormTag(), to);
    hn::StoreU(values.b, NormTag(), to + norm_lanes);
  }
  /// The values that load() returns after store().
  static HWY_INLINE Pair as_stored(Pair values) { return values; }
  /// The parameters of a block of columns.
  static HWY_INLINE Pair columns(const float* from) { return load(from); }
  static HWY_INLINE void store_columns(Pair values, float* to) { store(values, to); }

  /// The largest number that is stored as 0 or less.
  static constexpr float zero = 0;
};

struct BFloat16 {
  using Type = uint16_t;
  using Tag32 = hn::RebindToUnsigned<NormTag>;
  using Vector32 = hn::VFromD<Tag32>;

  static HWY_INLINE Pair load(const uint16_t* from) {
    const Tag32 d;
    const auto both = hn::LoadU(d, reinterpret_cast<const uint32_t*>(from));
    return {hn::BitCast(NormTag(), hn::ShiftLeft<16>(both)),
            hn::BitCast(NormTag(), hn::And(both, hn::Set(d, 0xFFFF0000U)))};
  }
  static HWY_INLINE void store(Pair values, uint16_t* to) {
    const Tag32 d;
    const auto both = hn::Or(hn::ShiftRight<16>(rounded(values.a)),
                             hn::And(rounded(values.b), hn::Set(d, 0xFFFF0000U)));
    hn::StoreU(both, d, reinterpret_cast<uint32_t*>(to));
  }
  static HWY_INLINE Pair as_stored(Pair values) {
    const Tag32 d;
    const auto upper = hn::Set(d, 0xFFFF0000U);
    return {hn::BitCast(NormTag(), hn::And(rounded(values.a), upper)),
            hn::BitCast(NormTag(), hn::And(rounded(values.b), upper))};
  }
  static HWY_INLINE Pair columns(const float* from) {
    Pair values = zeros();
    hn::LoadInterleaved2(NormTag(), from, values.a, values.b);
    return values;
  }
  static HWY_INLINE void store_columns(Pair values, float* to) {
    hn::StoreInterleaved2(values.a, values.b, NormTag(), to);
  }

  /// Half of the smallest positive number, rounded to even.
  static constexpr float zero = 0x1p-134F;

 private:
  /// The rounded bits are the upper 16; the lower ones are not 0.
  static HWY_INLINE Vector32 rounded(NormVector values) {
    const Tag32 d;
    const auto bits = hn::BitCast(d, values);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1U));
    const auto nearest = hn::Add(bits, hn::Add(odd, hn::Set(d, 0x7FFFU)));
    const auto not_a_number = hn::RebindMask(d, hn::IsNaN(values));
    return hn::IfThenElse(not_a_number, hn::Set(d, 0x7FC00000U), nearest);
  }
};

/// The first n values of a block; the others are 0.
template <class Number, bool part>
HWY_INLINE Pair load(const typename Number::Type* from, int64_t n) {
  if constexpr (!part) return Number::load(from);
  HWY_ALIGN typename Number::Type all[norm_block] = {};
  std::memcpy(all, from, static_cast<size_t>(n) * sizeof(all[0]));
  return Number::load(all);
}

template <class Number, bool part>
HWY_INLINE void store(Pair values, typename Number::Type* to, int64_t n) {
  if constexpr (!part) return Number::store(values, to);
  HWY_ALIGN typename Number::Type all[norm_block];
  Number::store(values, all);
  std::memcpy(to, all, static_cast<size_t>(n) * sizeof(all[0]));
}

template <class Number, bool part>
HWY_INLINE Pair columns(const float* from, int64_t n) {
  if constexpr (!part) return Number::columns(from);
  HWY_ALIGN float all[norm_block] = {};
  std::memcpy(all, from, static_cast<size_t>(n) * sizeof(float));
  return Number::columns(all);
}

template <class Number, bool part>
HWY_INLINE void store_columns(Pair values, float* to, int64_t n) {
  if constexpr (!part) return Number::store_columns(values, to);
  HWY_ALIGN float all[norm_block];
  Number::store_columns(values, all);
  std::memcpy(to, all, static_cast<size_t>(n) * sizeof(float));
}

/// Rows of a pass: the first one, their number, and the distance from one to the next.
struct RowSet {
  int64_t first, count, apart;
};

/// Calls pass.block<Number, part>(rows, first column, columns) for all rows, eight at a time: the
/// columns' parameters are loaded once for eight rows. The eight rows lie an eighth of all rows
/// apart, so each is read sequentially in pages of its own, as the hardware prefetcher needs it;
/// eight neighbouring rows in one page would take twice the time.
template <class Number, class Pass>
HWY_INLINE void over_rows_of(const NormRows& all, Pass& pass) {
  constexpr int64_t together = 8;
  const int64_t whole = all.width / norm_block * norm_block;
  const auto blocks = [&](const RowSet& rows) HWY_ATTR {
    for (int64_t j = 0; j < whole; j += norm_block)
      pass.template block<Number, false>(rows, j, norm_block);
    if (whole < all.width) pass.template block<Number, true>(rows, whole, all.width - whole);
  };
  const int64_t apart = all.rows / together;
  for (int64_t row = 0; row < apart; ++row) blocks({row, together, apart});
  for (int64_t row = apart * together; row < all.rows; ++row) blocks({row, 1, 1});
}

template <class Pass>
HWY_INLINE void over_rows(const NormRows& all, Pass pass) {
  if (all.bf16)
    over_rows_of<BFloat16>(all, pass);
  else
    over_rows_of<Float32>(all, pass);
}

/// The standard normal distribution at z: the probability of a smaller value, and the density.
struct Normal {
  NormVector below, density;
};

/// Accurate to a relative error of 1e-7 for |z| < 13.2, twice that in the tail; beyond, 0 or 1.
/// Q(t), the probability of a value above t, is exp(-t^2 / 2) times a polynomial of 1 / (1 + 0.35
/// t).
HWY_INLINE Normal normal_at(NormVector z) {
  const NormTag d;
  const auto one = hn::Set(d, 1.0F);
  const auto t = hn::Abs(z);

  const auto power = hn::Mul(hn::Mul(t, t), hn::Set(d, -0.5F));
  const auto too_small = hn::Lt(power, hn::Set(d, -87.0F));
  const auto argument = hn::IfThenElse(too_small, hn::Set(d, -87.0F), power);
  const auto twos = hn::Round(hn::Mul(argument, hn::Set(d, 1.44269504F)));
  const auto left = hn::NegMulAdd(twos, hn::Set(d, -2.12194440e-4F),
                                  hn::NegMulAdd(twos, hn::Set(d, 0.693359375F), argument));
  auto exponential = hn::Set(d, 1.0F / 720);
  exponential = hn::MulAdd(exponential, left, hn::Set(d, 1.0F / 120));
  exponential = hn::MulAdd(exponential, left, hn::Set(d, 1.0F / 24));
  exponential = hn::MulAdd(exponential, left, hn::Set(d, 1.0F / 6));
  exponential = hn::MulAdd(exponential, left, hn::Set(d, 0.5F));
  exponential = hn::MulAdd(exponential, left, one);
  exponential = hn::MulAdd(exponential, left, one);
  const hn::RebindToSigned<NormTag> d32;
  const auto exponent = hn::Add(hn::ConvertTo(d32, twos), hn::Set(d32, 127));
  exponential = hn::Mul(exponential, hn::BitCast(d, hn::ShiftLeft<23>(exponent)));
  exponential = hn::IfThenZeroElse(too_small, exponential);

  const auto u = hn::Div(one, hn::MulAdd(t, hn::Set(d, 0.35F), one));
  auto above = hn::Set(d, -0.029115015003334164F);
  above = hn::MulAdd(above, u, hn::Set(d, 0.1438184140620942F));
  above = hn::MulAdd(above, u, hn::Set(d, -0.25539100709673634F));
  above = hn::MulAdd(above, u, hn::Set(d, 0.15879655770924953F));
  above = hn::MulAdd(above, u, hn::Set(d, -0.02284342207173478F));
  above = hn::MulAdd(above, u, hn::Set(d, 0.10539214511058621F));
  above = hn::MulAdd(above, u, hn::Set(d, 0.11986308914155773F));
  above = hn::MulAdd(above, u, hn::Set(d, 0.13985756199160781F));
  above = hn::MulAdd(above, u, hn::Set(d, 0.13962166031204376F));
  above = hn::Mul(hn::Mul(above, u), exponential);

  const auto below = hn::IfThenElse(hn::Lt(z, hn::Zero(d)), above, hn::Sub(one, above));
  return {below, hn::Mul(exponential, hn::Set(d, 0.398942280F))};
}

}  // namespace composer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

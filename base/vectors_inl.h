// Operations on Highway's vectors that Highway lacks. Files of kernels include this behind
// hwy/foreach_target.h, so it is read once for each target, without a usual include guard. Some
// kernels keep vectors in arrays: targets whose vectors cannot (SVE, RVV) are not compiled.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"

#if defined(COMPOSER_VECTORS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef COMPOSER_VECTORS_INL_H
#undef COMPOSER_VECTORS_INL_H
#else
#define COMPOSER_VECTORS_INL_H
#endif

/// False for the fallback target, which takes plain code.
#undef COMPOSER_HAS_VECTORS
#define COMPOSER_HAS_VECTORS (HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128)

#if HWY_TARGET == HWY_AVX3_DL
// Highway's string names AVX-VNNI, which is not the extension that Highway checks for.
#undef HWY_TARGET_STR
#define HWY_TARGET_STR \
  HWY_TARGET_STR_AVX3  \
  ",vpclmulqdq,avx512vbmi,avx512vbmi2,vaes,avxvnni,avx512vnni,avx512bitalg,avx512vpopcntdq"
#endif

#if COMPOSER_HAS_VECTORS

HWY_BEFORE_NAMESPACE();
namespace composer::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// At most 32 bytes, for kernels that load each 16 bytes of a vector from its own address.
template <class T>
using NarrowTag = hn::CappedTag<T, 32 / sizeof(T)>;

template <class D>
constexpr size_t kBlocks = hn::MaxLanes(D()) * sizeof(hn::TFromD<D>) / 16;

// Highway's conversions clamp to the greatest int32, which takes two more operations. These are for
// numbers that fit.
#if HWY_ARCH_X86
HWY_INLINE hn::Vec128<int32_t> to_int(hn::Vec128<float> v) {
  return hn::Vec128<int32_t>{_mm_cvttps_epi32(v.raw)};
}
HWY_INLINE hn::Vec128<int32_t> to_nearest_int(hn::Vec128<float> v) {
  return hn::Vec128<int32_t>{_mm_cvtps_epi32(v.raw)};
}
#if HWY_TARGET <= HWY_AVX2
HWY_INLINE hn::Vec256<int32_t> to_int(hn::Vec256<float> v) {
  return hn::Vec256<int32_t>{_mm256_cvttps_epi32(v.raw)};
}
HWY_INLINE hn::Vec256<int32_t> to_nearest_int(hn::Vec256<float> v) {
  return hn::Vec256<int32_t>{_mm256_cvtps_epi32(v.raw)};
}
#endif
#if HWY_TARGET <= HWY_AVX3
HWY_INLINE hn::Vec512<int32_t> to_int(hn::Vec512<float> v) {
  return hn::Vec512<int32_t>{_mm512_cvttps_epi32(v.raw)};
}
HWY_INLINE hn::Vec512<int32_t> to_nearest_int(hn::Vec512<float> v) {
  return hn::Vec512<int32_t>{_mm512_cvtps_epi32(v.raw)};
}
#endif
#else
template <class V>
HWY_INLINE auto to_int(V v) {
  return hn::ConvertTo(hn::RebindToSigned<hn::DFromV<V>>(), v);
}
template <class V>
HWY_INLINE auto to_nearest_int(V v) {
  return hn::NearestInt(v);
}
#endif

/// Each block of 16 bytes gets the words of a's block, then of b's, clamped to [0, 255].
#if HWY_ARCH_X86
HWY_INLINE hn::Vec128<uint8_t> pack_words(hn::Vec128<int16_t> a, hn::Vec128<int16_t> b) {
  return hn::Vec128<uint8_t>{_mm_packus_epi16(a.raw, b.raw)};
}
#if HWY_TARGET <= HWY_AVX2
HWY_INLINE hn::Vec256<uint8_t> pack_words(hn::Vec256<int16_t> a, hn::Vec256<int16_t> b) {
  return hn::Vec256<uint8_t>{_mm256_packus_epi16(a.raw, b.raw)};
}
#endif
#if HWY_TARGET <= HWY_AVX3
HWY_INLINE hn::Vec512<uint8_t> pack_words(hn::Vec512<int16_t> a, hn::Vec512<int16_t> b) {
  return hn::Vec512<uint8_t>{_mm512_packus_epi16(a.raw, b.raw)};
}
#endif
#else
template <class V>
HWY_INLINE auto pack_words(V a, V b) {
  const hn::Repartition<uint8_t, hn::DFromV<V>> d;
  const hn::Half<decltype(d)> half;
  return hn::Combine(d, hn::DemoteTo(half, b), hn::DemoteTo(half, a));
}
#endif

/// Each block of 16 bytes gets the numbers of a's, b's, c's and d's block, clamped to [0, 255].
template <class V>
HWY_INLINE auto pack_in_blocks(V a, V b, V c, V d) {
  const hn::Repartition<int16_t, hn::DFromV<V>> words;
  return pack_words(hn::ReorderDemote2To(words, a, b), hn::ReorderDemote2To(words, c, d));
}

/// The source index of each 32 bits when the parts of all blocks are put in order.
template <size_t blocks, size_t parts>
constexpr std::array<uint32_t, 4 * blocks> order_of_blocks() {
  std::array<uint32_t, 4 * blocks> order{};
  constexpr size_t size = 4 / parts;
  for (size_t i = 0; i < order.size(); ++i) {
    const size_t part = i / (size * blocks), block = i / size % blocks;
    order[i] = static_cast<uint32_t>(4 * block + size * part + i % size);
  }
  return order;
}

/// Blocks that hold parts of `parts` vectors each -> the vectors one after another.
template <size_t parts, class V>
HWY_INLINE V in_order(V v) {
  const hn::DFromV<V> d;
  constexpr size_t blocks = kBlocks<hn::DFromV<V>>;
  if constexpr (blocks > 1) {
    static constexpr auto order = order_of_blocks<blocks, parts>();
    const hn::Repartition<uint32_t, decltype(d)> d32;
    v = hn::BitCast(
        d, hn::TableLookupLanes(hn::BitCast(d32, v), hn::SetTableIndices(d32, order.data())));
  }
  return v;
}

/// 32-bit numbers of four vectors -> bytes, clamped to [0, 255].
template <class V>
HWY_INLINE auto pack_bytes(V a, V b, V c, V d) {
  return in_order<4>(pack_in_blocks(a, b, c, d));
}

/// Words a[2 i] * b[2 i] + a[2 i + 1] * b[2 i + 1] -> 32 bits.
template <class V>
HWY_INLINE auto multiply_pairs(V a, V b) {
  const hn::RepartitionToWide<hn::DFromV<V>> d32;
  auto odd = hn::Zero(d32);
  const auto even = hn::ReorderWidenMulAccumulate(d32, a, b, hn::Zero(d32), odd);
  return hn::RearrangeToOddPlusEven(even, odd);
}

/// sums + multiply_pairs(a, b)
template <class V32, class V>
HWY_INLINE V32 add_pairs(V32 sums, V a, V b) {
#if HWY_TARGET == HWY_AVX3_DL
  if constexpr (kBlocks<hn::DFromV<V>> == 4)
    return V32{_mm512_dpwssd_epi32(sums.raw, a.raw, b.raw)};
#endif
  return hn::Add(sums, multiply_pairs(a, b));
}

/// The sum of a vector's one or two blocks, as one block.
template <class V>
HWY_INLINE auto sum_of_blocks(V v) {
  const hn::FixedTag<hn::TFromV<V>, 16 / sizeof(hn::TFromV<V>)> block;
  if constexpr (kBlocks<hn::DFromV<V>> == 1) {
    return v;
  } else {
    return hn::Add(hn::LowerHalf(block, v), hn::UpperHalf(block, v));
  }
}

/// Loads 16 bytes from `at(block)` for each block.
template <class D, class At>
HWY_INLINE hn::VFromD<D> load_blocks(D d, const At& at) {
  if constexpr (kBlocks<D> == 1) {
    return hn::LoadU(d, at(0));
  } else {
    static_assert(kBlocks<D> == 2);
    const hn::Half<D> half;
    return hn::Combine(d, hn::LoadU(half, at(1)), hn::LoadU(half, at(0)));
  }
}

/// Loads the first n bytes of a vector; the others are 0.
template <class D>
HWY_INLINE hn::VFromD<D> load_first(D d, const uint8_t* from, int64_t n) {
  if (n >= static_cast<int64_t>(hn::Lanes(d))) return hn::LoadU(d, from);
#if HWY_TARGET <= HWY_AVX3
  return hn::MaskedLoad(hn::FirstN(d, static_cast<size_t>(n)), d, from);
#else
  HWY_ALIGN uint8_t all[hn::MaxLanes(D())] = {};
  std::memcpy(all, from, static_cast<size_t>(n));
  return hn::Load(d, all);
#endif
}

/// Stores the first n bytes of v.
template <class V>
HWY_INLINE void store_first(V v, int64_t n, uint8_t* to) {
  const hn::DFromV<V> d;
  if (n >= static_cast<int64_t>(hn::Lanes(d))) return hn::StoreU(v, d, to);
#if HWY_TARGET <= HWY_AVX3
  hn::BlendedStore(v, hn::FirstN(d, static_cast<size_t>(n)), d, to);
#else
  HWY_ALIGN uint8_t all[hn::MaxLanes(hn::DFromV<V>())];
  hn::Store(v, d, all);
  std::memcpy(to, all, static_cast<size_t>(n));
#endif
}

}  // namespace composer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
#endif

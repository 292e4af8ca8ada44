// Reads the windows of bytes that data/pixels/resize_lanes.h prepares, one look-up a lane. Included
// once for each target, like base/vectors_inl.h.
#include "base/vectors_inl.h"
#include "data/pixels/resize_lanes.h"

#if defined(COMPOSER_LANES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef COMPOSER_LANES_INL_H
#undef COMPOSER_LANES_INL_H
#else
#define COMPOSER_LANES_INL_H
#endif

#if COMPOSER_HAS_VECTORS

HWY_BEFORE_NAMESPACE();
namespace composer::HWY_NAMESPACE {

/// Four lanes look into 16 bytes.
struct NarrowWindows {
  using Bytes = NarrowTag<uint8_t>;
  static constexpr int64_t lanes = 4, bytes = 16;

  /// Reads for the lanes from `value` on. at: the windows' offset from the first step, in bytes.
  template <LaneBytes>
  static HWY_INLINE hn::VFromD<Bytes> read(const Lanes& from, int64_t value, int64_t at,
                                           const uint8_t* in) {
    const Bytes d;
    const int32_t* const base = from.base.data() + value / lanes;
    const auto windows =
        load_blocks(d, [&](size_t block) HWY_ATTR { return in + base[block] + at; });
    const auto* index = reinterpret_cast<const uint8_t*>(from.index.data() + value);
    return hn::TableLookupBytesOr0(windows, hn::LoadU(d, index));
  }
};

#if HWY_TARGET == HWY_AVX3_DL
/// 16 lanes look into 64 bytes.
struct WideWindows {
  using Bytes = hn::FixedTag<uint8_t, 64>;
  static constexpr int64_t lanes = 16, bytes = 64;

  template <LaneBytes taken>
  static HWY_INLINE hn::VFromD<Bytes> read(const Lanes& from, int64_t value, int64_t at,
                                           const uint8_t* in) {
    constexpr __mmask64 used = taken == LaneBytes::one   ? 0x1111111111111111
                               : taken == LaneBytes::two ? 0x5555555555555555
                                                         : ~0ULL;
    const uint8_t* const window = in + from.base[static_cast<size_t>(value / lanes)] + at;
    return hn::VFromD<Bytes>{_mm512_maskz_permutexvar_epi8(
        used, _mm512_loadu_si512(from.index.data() + value), _mm512_loadu_si512(window))};
  }
};
#endif

}  // namespace composer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
#endif

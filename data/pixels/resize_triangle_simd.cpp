#include <algorithm>

#include "data/pixels/resize_simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "data/pixels/resize_triangle_simd.cpp"
#include "hwy/foreach_target.h"

// After foreach_target.h
#include "data/pixels/lanes_inl.h"

HWY_BEFORE_NAMESPACE();
namespace composer::HWY_NAMESPACE {
namespace {

#if COMPOSER_HAS_VECTORS

constexpr int kSplit = 11;  // bits of a weight's lower half
constexpr int32_t kHalf = 1 << (kTriangleBits - 1);

/// Weighted sums of pairs of taps, in 32 bits.
template <class D32>
struct PairSums {
  hn::VFromD<D32> high, low;

  HWY_INLINE PairSums() : high(hn::Zero(D32())), low(hn::Set(D32(), kHalf)) {}

  template <class V16>
  HWY_INLINE void add(V16 taps, V16 upper, V16 lower) {
    high = hn::Add(high, multiply_pairs(taps, upper)), low = add_pairs(low, taps, lower);
  }

  HWY_INLINE hn::VFromD<D32> pixels() const {
    return hn::ShiftRight<kTriangleBits>(hn::Add(hn::ShiftLeft<kSplit>(high), low));
  }
};

template <bool one_step>
void across_pairs(const Lanes& lanes, const uint8_t* in, int64_t n, uint8_t* out) {
  const NarrowTag<int16_t> d;
  constexpr auto sums = static_cast<int64_t>(hn::MaxLanes(NarrowTag<int32_t>()));
  const auto pixels = [&](int64_t value) HWY_ATTR {
    const auto* weight = reinterpret_cast<const int16_t*>(lanes.weights.data() + value);
    PairSums<NarrowTag<int32_t>> sum;
    int64_t at = 0;
    for (int64_t s = 0; s < (one_step ? 1 : lanes.steps); ++s, at += lanes.step_bytes) {
      const auto taps = NarrowWindows::read<LaneBytes::two>(lanes, value, at, in);
      sum.add(hn::BitCast(d, taps), hn::LoadU(d, weight), hn::LoadU(d, weight + 2 * lanes.values));
      weight += 4 * lanes.values;
    }
    return sum.pixels();
  };
  for (int64_t i = 0; i < n; i += 4 * sums) {
    const auto bytes =
        pack_bytes(pixels(i), pixels(i + sums), pixels(i + 2 * sums), pixels(i + 3 * sums));
    store_first(bytes, n - i, out + i);
  }
}

void across_by_pairs(const Lanes& lanes, const uint8_t* in, int64_t n, uint8_t* out) {
  (lanes.steps == 1 ? across_pairs<true> : across_pairs<false>)(lanes, in, n, out);
}

/// Order of a block of four taps' bytes: taps 0 and 1 of each channel as words, then taps 2 and 3.
alignas(16) constexpr uint8_t kWideOrder[32] = {
    0, 0x80, 3, 0x80, 1, 0x80, 4,  0x80, 2, 0x80, 5,  0x80, 0x80, 0x80, 0x80, 0x80,
    6, 0x80, 9, 0x80, 7, 0x80, 10, 0x80, 8, 0x80, 11, 0x80, 0x80, 0x80, 0x80, 0x80};
/// Order of a block of four taps' weights: the upper bits of taps 0 and 1 for all channels, then of
/// taps 2 and 3.
alignas(16) constexpr uint8_t kWideWeights[32] = {0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3,
                                                  4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7};

/// One block for taps 0 and 1, another for taps 2 and 3: both in one vector, or one after the
/// other.
void across_wide(const int32_t* firsts, const uint32_t* weights, int64_t steps, int64_t pixels,
                 const uint8_t* in, uint8_t* out) {
  const NarrowTag<uint8_t> d;
  const NarrowTag<int16_t> d16;
  const NarrowTag<int32_t> d32;
  const hn::FixedTag<int32_t, 4> block32;
  constexpr size_t bytes = hn::MaxLanes(NarrowTag<uint8_t>());
  for (int64_t x = 0; x < pixels; ++x, out += 3) {
    const uint8_t* from = in + firsts[x];
    auto high = hn::Zero(d32), low = high;
    for (int64_t s = 0; s < steps; ++s, from += 12, weights += 4) {
      const auto window = hn::LoadDup128(d, from);
      const auto four = hn::LoadDup128(d, reinterpret_cast<const uint8_t*>(weights));
      for (size_t half = 0; half < 32; half += bytes) {
        const auto taps = hn::TableLookupBytesOr0(window, hn::Load(d, kWideOrder + half));
        const auto upper = hn::Load(d, kWideWeights + half);
        const auto lower = hn::Add(upper, hn::Set(d, uint8_t{8}));
        high = add_pairs(high, hn::BitCast(d16, taps),
                         hn::BitCast(d16, hn::TableLookupBytes(four, upper)));
        low = add_pairs(low, hn::BitCast(d16, taps),
                        hn::BitCast(d16, hn::TableLookupBytes(four, lower)));
      }
    }
    const auto both = hn::Add(hn::ShiftLeft<kSplit>(high), low);
    const auto sum = hn::Add(hn::Set(block32, kHalf), sum_of_blocks(both));
    const auto rounded = hn::ShiftRight<kTriangleBits>(sum);
    const auto packed = pack_in_blocks(rounded, rounded, rounded, rounded);
    const uint32_t rgb = hn::GetLane(hn::BitCast(hn::FixedTag<uint32_t, 4>(), packed));
    std::memcpy(out, &rgb, 2);
    out[2] = static_cast<uint8_t>(rgb >> 16);
  }
}

/// The bytes of two rows, interleaved as words in the order that pack_in_blocks reverses.
template <class V>
struct Zipped {
  const V left, right;

  HWY_INLINE Zipped(V a, V b)
      : left(hn::InterleaveLower(a, b)), right(hn::InterleaveUpper(hn::DFromV<V>(), a, b)) {}

  template <int part>
  HWY_INLINE auto words() const {
    const hn::DFromV<V> d;
    const auto zero = hn::Zero(d);
    const hn::Repartition<int16_t, decltype(d)> d16;
    const V& half = part < 2 ? left : right;
    if constexpr (part % 2 == 0) return hn::BitCast(d16, hn::InterleaveLower(half, zero));
    return hn::BitCast(d16, hn::InterleaveUpper(d, half, zero));
  }
};

template <bool two_taps>
void down_pairs(const uint8_t* const* rows, int64_t taps, const uint32_t* weights, int64_t n,
                uint8_t* out) {
  const hn::ScalableTag<uint8_t> d;
  const hn::ScalableTag<int16_t> d16;
  const hn::ScalableTag<uint32_t> d32;
  using Sums = PairSums<hn::ScalableTag<int32_t>>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const uint32_t first_two[] = {weights[0], weights[1]};
  for (int64_t i = 0; i < n; i += lanes) {
    Sums sums[4];
    for (int64_t k = 0; k < (two_taps ? 2 : taps); k += 2) {
      const Zipped pairs(load_first(d, rows[k] + i, n - i),
                         load_first(d, rows[std::min(k + 1, taps - 1)] + i, n - i));
      const uint32_t* const two = two_taps ? first_two : weights + k;
      const auto upper = hn::BitCast(d16, hn::Set(d32, two[0]));
      const auto lower = hn::BitCast(d16, hn::Set(d32, two[1]));
      sums[0].add(pairs.template words<0>(), upper, lower);
      sums[1].add(pairs.template words<1>(), upper, lower);
      sums[2].add(pairs.template words<2>(), upper, lower);
      sums[3].add(pairs.template words<3>(), upper, lower);
    }
    store_first(
        pack_in_blocks(sums[0].pixels(), sums[1].pixels(), sums[2].pixels(), sums[3].pixels()),
        n - i, out + i);
  }
}

void down_by_pairs(const uint8_t* const* rows, int64_t taps, const uint32_t* weights, int64_t n,
                   uint8_t* out) {
  (taps == 2 ? down_pairs<true> : down_pairs<false>)(rows, taps, weights, n, out);
}

#if HWY_TARGET == HWY_AVX3_DL

/// Weighted sums of quads of taps: unsigned bytes times signed bytes, in 32 bits.
struct QuadSums {
  __m512i high, middle, low;

  HWY_INLINE QuadSums()
      : high(_mm512_set1_epi32(kHalf >> 16)), middle(_mm512_setzero_si512()), low(middle) {}

  HWY_INLINE void add(__m512i taps, __m512i level0, __m512i level1, __m512i level2) {
    low = _mm512_dpbusd_epi32(low, taps, level0);
    middle = _mm512_dpbusd_epi32(middle, taps, level1);
    high = _mm512_dpbusd_epi32(high, taps, level2);
  }

  /// add() for the only step: one sum is enough.
  HWY_INLINE void add_only(__m512i taps, __m512i level0, __m512i level1, __m512i level2) {
    const __m512i upper = _mm512_slli_epi32(_mm512_dpbusd_epi32(high, taps, level2), 8);
    const __m512i both = _mm512_slli_epi32(_mm512_dpbusd_epi32(upper, taps, level1), 8);
    low = _mm512_dpbusd_epi32(both, taps, level0);
  }

  HWY_INLINE void join() {
    middle = _mm512_add_epi32(_mm512_slli_epi32(high, 8), middle);
    low = _mm512_add_epi32(_mm512_slli_epi32(middle, 8), low);
  }

  HWY_INLINE hn::Vec512<int32_t> pixels() const {
    return hn::Vec512<int32_t>{_mm512_srai_epi32(low, kTriangleBits)};
  }
};

template <bool one_step>
void across_quads(const Lanes& lanes, const uint8_t* in, int64_t n, uint8_t* out) {
  const auto pixels = [&](int64_t value) HWY_ATTR {
    QuadSums sums;
    const uint32_t* weight = lanes.weights.data() + value;
    const auto level = [&](int i)
                           HWY_ATTR { return _mm512_loadu_si512(weight + i * lanes.values); };
    if constexpr (one_step) {
      const auto taps = WideWindows::read<LaneBytes::four>(lanes, value, 0, in);
      sums.add_only(taps.raw, level(0), level(1), level(2));
    } else {
      int64_t at = 0;
      for (int64_t s = 0; s < lanes.steps; ++s, at += lanes.step_bytes) {
        const auto taps = WideWindows::read<LaneBytes::four>(lanes, value, at, in);
        sums.add(taps.raw, level(0), level(1), level(2));
        weight += 3 * lanes.values;
      }
      sums.join();
    }
    return sums.pixels();
  };
  for (int64_t i = 0; i < n; i += 64) {
    store_first(pack_bytes(pixels(i), pixels(i + 16), pixels(i + 32), pixels(i + 48)), n - i,
                out + i);
  }
}

void across_by_quads(const Lanes& lanes, const uint8_t* in, int64_t n, uint8_t* out) {
  (lanes.steps == 1 ? across_quads<true> : across_quads<false>)(lanes, in, n, out);
}

void down_by_quads(const uint8_t* const* rows, int64_t taps, const uint32_t* weights, int64_t n,
                   uint8_t* out) {
  const hn::FixedTag<uint8_t, 64> d;
  for (int64_t i = 0; i < n; i += 64) {
    QuadSums sums[4];
    for (int64_t k = 0; k < taps; k += 4) {
      __m512i row[4];
      for (int64_t j = 0; j < 4; ++j)
        row[j] = load_first(d, rows[std::min(k + j, taps - 1)] + i, n - i).raw;
      const __m512i ab_left = _mm512_unpacklo_epi8(row[0], row[1]);
      const __m512i ab_right = _mm512_unpackhi_epi8(row[0], row[1]);
      const __m512i cd_left = _mm512_unpacklo_epi8(row[2], row[3]);
      const __m512i cd_right = _mm512_unpackhi_epi8(row[2], row[3]);
      const __m512i quads[4] = {
          _mm512_unpacklo_epi16(ab_left, cd_left), _mm512_unpackhi_epi16(ab_left, cd_left),
          _mm512_unpacklo_epi16(ab_right, cd_right), _mm512_unpackhi_epi16(ab_right, cd_right)};
      const uint32_t* const weight = weights + k / 4 * 3;
      const __m512i level0 = _mm512_set1_epi32(static_cast<int>(weight[0]));
      const __m512i level1 = _mm512_set1_epi32(static_cast<int>(weight[1]));
      const __m512i level2 = _mm512_set1_epi32(static_cast<int>(weight[2]));
      for (int j = 0; j < 4; ++j) sums[j].add(quads[j], level0, level1, level2);
    }
    for (QuadSums& sum : sums) sum.join();
    store_first(
        pack_in_blocks(sums[0].pixels(), sums[1].pixels(), sums[2].pixels(), sums[3].pixels()),
        n - i, out + i);
  }
}

constexpr TriangleAcrossKernel kAcross[] = {
    {TriangleWeights::quads, WideWindows::lanes, WideWindows::bytes, across_by_quads},
    {TriangleWeights::pairs, NarrowWindows::lanes, NarrowWindows::bytes, across_by_pairs}};
constexpr TriangleKernels kKernels{kAcross, across_wide, down_by_pairs, down_by_quads};

#else

constexpr TriangleAcrossKernel kAcross[] = {
    {TriangleWeights::pairs, NarrowWindows::lanes, NarrowWindows::bytes, across_by_pairs}};
constexpr TriangleKernels kKernels{kAcross, across_wide, down_by_pairs, nullptr};

#endif

#else

constexpr TriangleKernels kKernels{};

#endif

const TriangleKernels& kernels() { return kKernels; }

}  // namespace
}  // namespace composer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace composer {

HWY_EXPORT(kernels);

const TriangleKernels& triangle_kernels() { return HWY_DYNAMIC_DISPATCH(kernels)(); }

}  // namespace composer
#endif

#include "data/jpeg/coefficients_simd.h"

#include <algorithm>
#include <bit>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "data/jpeg/coefficients_simd.cpp"
#include "hwy/foreach_target.h"

// After foreach_target.h
#include "base/vectors_inl.h"

HWY_BEFORE_NAMESPACE();
namespace composer::HWY_NAMESPACE {
namespace {

constexpr size_t kMaskBytes = 8, kHeadBytes = kMaskBytes + 2;
constexpr uint64_t kWide = 1;

HWY_INLINE uint64_t load_word(const uint8_t* from) {
  uint64_t word;
  std::memcpy(&word, from, sizeof word);
  return word;
}

HWY_INLINE size_t values_of(uint64_t mask) {
  return static_cast<size_t>(std::popcount(mask & ~kWide));
}

HWY_INLINE size_t value_bytes(uint64_t mask) { return values_of(mask) << (mask & kWide); }

constexpr size_t kLanes = 8, kStripe = 8 * kLanes;
constexpr uint64_t kKeys[kLanes] = {0xbe4ba423396cfeb8, 0x1cad21f72c81017c, 0xdb979083e96dd4de,
                                    0x1f67b3b7a4a44072, 0x78e5c0cc4ee679cb, 0x2172ffcc7dd05a82,
                                    0x8e2443f7744608b8, 0x4c263a81e69035e0};
constexpr uint64_t kPrime = 0x9e3779b185ebca87;

#if COMPOSER_HAS_VECTORS

using D8 = hn::FixedTag<uint8_t, 8>;
using D16 = hn::FixedTag<int16_t, 8>;

#if HWY_TARGET <= HWY_AVX3_DL

/// The packed bytes at `values`, each moved to the position of a set bit, as two vectors of 32
/// words.
template <class T>
struct Spread {
  hn::Vec512<int16_t> left, right;

  HWY_INLINE Spread(uint64_t places, const uint8_t* values) {
    const hn::FixedTag<T, 32> half;
    const hn::FixedTag<int16_t, 32> words;
    const hn::Vec512<T> all{_mm512_maskz_expand_epi8(places, _mm512_loadu_si512(values))};
    left = hn::PromoteTo(words, hn::LowerHalf(half, all));
    right = hn::PromoteTo(words, hn::UpperHalf(half, all));
  }
};

HWY_INLINE void unpack_block(uint64_t mask, const uint8_t* values, int16_t* block) {
  const hn::FixedTag<int16_t, 32> d;
  const uint64_t places = mask & ~kWide;
  if ((mask & kWide) == 0) [[likely]] {
    const Spread<int8_t> all(places, values);
    hn::StoreU(all.left, d, block);
    hn::StoreU(all.right, d, block + 32);
    return;
  }
  const Spread<uint8_t> low(places, values), high(places, values + values_of(mask));
  hn::StoreU(hn::Or(low.left, hn::ShiftLeft<8>(high.left)), d, block);
  hn::StoreU(hn::Or(low.right, hn::ShiftLeft<8>(high.right)), d, block + 32);
}

#else

HWY_INLINE hn::VFromD<D8> spread(uint64_t bits, const uint8_t* values) {
  return hn::TableLookupBytesOr0(hn::LoadU(D8(), values),
                                 hn::LoadU(D8(), kBitPlaces.spread[bits & 255].data()));
}

/// Byte i is the number of set bits in the bytes below it.
HWY_INLINE uint64_t set_before(uint64_t bits) {
  bits -= bits >> 1 & 0x5555555555555555;
  bits = (bits & 0x3333333333333333) + (bits >> 2 & 0x3333333333333333);
  bits = (bits + (bits >> 4)) & 0x0f0f0f0f0f0f0f0f;
  return bits * 0x0101010101010100;
}

HWY_INLINE void unpack_block(uint64_t mask, const uint8_t* values, int16_t* block) {
  const D16 d;
  const uint64_t places = mask & ~kWide, before = set_before(places);
  if ((mask & kWide) == 0) [[likely]] {
    const hn::Rebind<int8_t, D16> narrow;
    for (int y = 0; y < 8; ++y) {
      const auto row = spread(places >> 8 * y, values + (before >> 8 * y & 255));
      hn::StoreU(hn::PromoteTo(d, hn::BitCast(narrow, row)), d, block + 8 * y);
    }
    return;
  }
  const uint8_t* const upper = values + values_of(mask);
  for (int y = 0; y < 8; ++y) {
    const uint64_t at = before >> 8 * y & 255;
    const auto low = hn::PromoteTo(d, spread(places >> 8 * y, values + at));
    const auto high = hn::PromoteTo(d, spread(places >> 8 * y, upper + at));
    hn::StoreU(hn::Or(low, hn::ShiftLeft<8>(high)), d, block + 8 * y);
  }
}

#endif

/// The coefficients of a block's row, with 0 for the DC coefficient.
HWY_INLINE hn::VFromD<D16> ac_row(const int16_t* block, int y) {
  const D16 d;
  const auto row = hn::LoadU(d, block + 8 * y);
  return y == 0 ? hn::IfThenZeroElse(hn::FirstN(d, 1), row) : row;
}

HWY_INLINE uint64_t mask_of(const int16_t* block) {
  const D16 d;
  uint8_t bits[kMaskBytes];
  auto beyond = hn::Zero(d);
  for (int y = 0; y < 8; ++y) {
    const auto row = ac_row(block, y);
    beyond = hn::Or(beyond, hn::Xor(hn::ShiftRight<7>(row), hn::ShiftRight<15>(row)));
    hn::StoreMaskBits(d, hn::Ne(row, hn::Zero(d)), bits + y);
  }
  const bool narrow = hn::AllTrue(d, hn::Eq(beyond, hn::Zero(d)));
  return load_word(bits) | (narrow ? 0 : kWide);
}

/// Packs the upper or the lower 8 bits of each nonzero coefficient.
template <bool upper>
HWY_INLINE uint8_t* collect(uint64_t mask, const int16_t* block, uint8_t* to) {
  const D16 d;
  const D8 d8;
  const uint64_t places = mask & ~kWide;
  for (int y = 0; y < 8; ++y) {
    const uint64_t bits = places >> 8 * y & 255;
    const auto row = hn::BitCast(hn::RebindToUnsigned<D16>(), hn::LoadU(d, block + 8 * y));
    const auto half = upper ? hn::ShiftRight<8>(row)
                            : hn::And(row, hn::Set(hn::DFromV<decltype(row)>(), uint16_t{255}));
    const auto bytes = hn::DemoteTo(d8, hn::BitCast(d, half));
    hn::StoreU(hn::TableLookupBytesOr0(bytes, hn::LoadU(d8, kBitPlaces.collect[bits].data())), d8,
               to);
    to += std::popcount(bits);
  }
  return to;
}

HWY_INLINE uint8_t* pack_values(uint64_t mask, const int16_t* block, uint8_t* to) {
  to = collect<false>(mask, block, to);
  return (mask & kWide) != 0 ? collect<true>(mask, block, to) : to;
}

/// Updates the sums of the 8 lanes.
HWY_INLINE void add_stripes(const uint8_t* bytes, size_t stripes, uint64_t (&keys)[kLanes],
                            uint64_t (&sums)[kLanes]) {
  const hn::CappedTag<uint64_t, kLanes> d;
  const hn::Repartition<uint32_t, decltype(d)> d32;
  constexpr size_t lanes = hn::MaxLanes(hn::CappedTag<uint64_t, kLanes>());
  const auto step = hn::Set(d, kPrime);
  for (size_t lane = 0; lane < kLanes; lane += lanes) {
    auto sum = hn::LoadU(d, sums + lane), key = hn::LoadU(d, keys + lane);
    for (size_t i = 0; i < stripes; ++i) {
      const auto data = hn::BitCast(
          d, hn::LoadU(hn::Repartition<uint8_t, decltype(d)>(), bytes + kStripe * i + 8 * lane));
      const auto mixed = hn::Xor(data, key);
      const auto product =
          hn::MulEven(hn::BitCast(d32, mixed), hn::BitCast(d32, hn::ShiftRight<32>(mixed)));
      sum = hn::Add(sum, hn::Add(product, hn::Shuffle01(data)));
      key = hn::Add(key, step);
    }
    hn::StoreU(sum, d, sums + lane);
    hn::StoreU(key, d, keys + lane);
  }
}

#else

void unpack_block(uint64_t mask, const uint8_t* values, int16_t* block) {
  const uint8_t* upper = values + values_of(mask);
  for (int i = 0; i < 64; ++i) {
    block[i] = 0;
    if (((mask & ~kWide) >> i & 1) == 0) continue;
    const bool wide = (mask & kWide) != 0;
    block[i] = static_cast<int16_t>(wide ? *upper++ << 8 | *values : static_cast<int8_t>(*values));
    ++values;
  }
}

uint64_t mask_of(const int16_t* block) {
  uint64_t mask = 0;
  for (int i = 1; i < 64; ++i) {
    if (block[i] != 0) mask |= uint64_t{1} << i;
    if (block[i] != static_cast<int8_t>(block[i])) mask |= kWide;
  }
  return mask;
}

uint8_t* pack_values(uint64_t mask, const int16_t* block, uint8_t* to) {
  for (const int shift : {0, 8}) {
    if (shift == 8 && (mask & kWide) == 0) break;
    for (int i = 1; i < 64; ++i)
      if (block[i] != 0) *to++ = static_cast<uint8_t>(block[i] >> shift);
  }
  return to;
}

void add_stripes(const uint8_t* bytes, size_t stripes, uint64_t (&keys)[kLanes],
                 uint64_t (&sums)[kLanes]) {
  for (size_t i = 0; i < kLanes * stripes; ++i) {
    const size_t lane = i % kLanes;
    const uint64_t data = load_word(bytes + 8 * i), mixed = data ^ keys[lane];
    sums[lane] += (mixed & 0xffffffff) * (mixed >> 32);
    sums[lane ^ 1] += data;
    keys[lane] += kPrime;
  }
}

#endif

size_t pack(const int16_t* blocks, size_t count, uint8_t* out) {
  uint8_t* values = out + kHeadBytes * count;
  for (size_t i = 0; i < count; ++i) {
    const int16_t* const block = blocks + 64 * i;
    const uint64_t mask = mask_of(block);
    std::memcpy(out + kMaskBytes * i, &mask, kMaskBytes);
    std::memcpy(out + kMaskBytes * count + 2 * i, block, 2);
    values = pack_values(mask, block, values);
  }
  return static_cast<size_t>(values - out);
}

bool unpack(std::span<const uint8_t> row, size_t blocks, size_t first, size_t count, int16_t* out) {
  if (row.size() < kHeadBytes * blocks) return false;
  const uint8_t* const masks = row.data();
  const uint8_t* const dc = masks + kMaskBytes * blocks;
  const uint8_t* const end = row.data() + row.size();
  size_t skipped = 0;
  for (size_t i = 0; i < first; ++i) skipped += value_bytes(load_word(masks + kMaskBytes * i));
  if (skipped > row.size() - kHeadBytes * blocks) return false;
  const uint8_t* values = row.data() + kHeadBytes * blocks + skipped;
  for (size_t i = first; i < first + count; ++i) {
    const uint64_t mask = load_word(masks + kMaskBytes * i);
    unpack_block(mask, values, out);
    std::memcpy(out, dc + 2 * i, 2);
    out += 64;
    values += value_bytes(mask);
    if (values > end) return false;
  }
  return true;
}

/// XXH3's long hash with keys that count up instead of a secret.
uint64_t checksum(std::span<const uint8_t> bytes) {
  uint64_t keys[kLanes], sums[kLanes] = {};
  std::copy_n(kKeys, kLanes, keys);
  const size_t whole = bytes.size() / kStripe, rest = bytes.size() % kStripe;
  add_stripes(bytes.data(), whole, keys, sums);
  uint8_t last[kStripe] = {};
  if (rest > 0) std::memcpy(last, bytes.data() + kStripe * whole, rest);
  add_stripes(last, 1, keys, sums);
  uint64_t all = bytes.size() * kPrime;
  for (const uint64_t sum : sums) {
    all = (all ^ sum) * kPrime;
    all ^= all >> 29;
  }
  return all;
}

constexpr CoefficientKernels kKernels{pack, unpack, checksum};

const CoefficientKernels& kernels() { return kKernels; }

}  // namespace
}  // namespace composer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace composer {

HWY_EXPORT(kernels);

const CoefficientKernels& coefficient_kernels() { return HWY_DYNAMIC_DISPATCH(kernels)(); }

}  // namespace composer
#endif

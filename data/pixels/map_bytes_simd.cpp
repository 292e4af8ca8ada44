#include "data/pixels/map_bytes_simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "data/pixels/map_bytes_simd.cpp"
#include "hwy/foreach_target.h"

// After foreach_target.h
#include "base/vectors_inl.h"

HWY_BEFORE_NAMESPACE();
namespace composer::HWY_NAMESPACE {
namespace {

// Each form of Mapped looks vectors up. `lanes` is 0 when single bytes are as fast.
#if HWY_TARGET == HWY_AVX3_DL

struct Mapped {
  static constexpr int64_t lanes = 64;
  using Bytes = hn::FixedTag<uint8_t, 64>;
  __m512i quarters[4];

  HWY_INLINE explicit Mapped(const uint8_t* table) {
    for (size_t i = 0; i < 4; ++i) quarters[i] = _mm512_loadu_si512(table + 64 * i);
  }

  HWY_INLINE hn::VFromD<Bytes> operator()(hn::VFromD<Bytes> from) const {
    const __m512i low = _mm512_permutex2var_epi8(quarters[0], from.raw, quarters[1]);
    const __m512i high = _mm512_permutex2var_epi8(quarters[2], from.raw, quarters[3]);
    return hn::VFromD<Bytes>{_mm512_mask_blend_epi8(_mm512_movepi8_mask(from.raw), low, high)};
  }
};

#elif HWY_TARGET == HWY_NEON && HWY_ARCH_ARM_A64

struct Mapped {
  static constexpr int64_t lanes = 16;
  using Bytes = hn::FixedTag<uint8_t, 16>;
  uint8x16x4_t quarters[4];

  HWY_INLINE explicit Mapped(const uint8_t* table) {
    for (size_t i = 0; i < 4; ++i) quarters[i] = vld1q_u8_x4(table + 64 * i);
  }

  HWY_INLINE hn::VFromD<Bytes> operator()(hn::VFromD<Bytes> from) const {
    uint8x16_t to = vqtbl4q_u8(quarters[0], from.raw);
    for (uint8_t i = 1; i < 4; ++i) {
      to =
          vqtbx4q_u8(to, quarters[i], veorq_u8(from.raw, vdupq_n_u8(static_cast<uint8_t>(64 * i))));
    }
    return hn::VFromD<Bytes>(to);
  }
};

#elif HWY_TARGET == HWY_AVX3

struct Mapped {
  using Bytes = hn::ScalableTag<uint8_t>;
  static constexpr auto lanes = static_cast<int64_t>(hn::MaxLanes(Bytes()));
  const uint8_t* table;

  HWY_INLINE explicit Mapped(const uint8_t* t) : table(t) {}

  /// 16 look-ups: step i looks up the lower half of the bytes whose upper half is i. Other bytes
  /// have a sum of 128 or more, which gives a 0.
  HWY_INLINE hn::VFromD<Bytes> operator()(hn::VFromD<Bytes> from) const {
    const Bytes d;
    auto to = hn::Zero(d);
    for (size_t i = 0; i < 16; ++i) {
      const auto row = hn::LoadDup128(d, table + 16 * i);
      const auto rest = hn::Xor(from, hn::Set(d, static_cast<uint8_t>(16 * i)));
      const auto index = hn::SaturatedAdd(rest, hn::Set(d, uint8_t{0x70}));
      to = hn::Or(to, hn::TableLookupBytesOr0(row, index));
    }
    return to;
  }
};

#else

struct Mapped {
  static constexpr int64_t lanes = 0;
};

#endif

/// Maps all bytes, or returns false.
template <class Lookup>
HWY_INLINE bool map_vectors(const std::array<uint8_t, 256>& table, uint8_t* values, int64_t n) {
  if constexpr (Lookup::lanes > 0) {
    const Lookup lookup(table.data());
    const typename Lookup::Bytes d;
    for (int64_t i = 0; i < n; i += Lookup::lanes)
      store_first(lookup(load_first(d, values + i, n - i)), n - i, values + i);
  }
  return Lookup::lanes > 0;
}

void map_all(const std::array<uint8_t, 256>& table, uint8_t* values, int64_t n) {
  if (map_vectors<Mapped>(table, values, n)) return;
  for (int64_t i = 0; i < n; ++i) values[i] = table[values[i]];
}

}  // namespace
}  // namespace composer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace composer {

HWY_EXPORT(map_all);

void map_bytes(const std::array<uint8_t, 256>& table, uint8_t* values, int64_t n) {
  HWY_DYNAMIC_DISPATCH(map_all)(table, values, n);
}

}  // namespace composer
#endif

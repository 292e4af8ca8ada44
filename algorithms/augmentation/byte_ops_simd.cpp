#include "algorithms/augmentation/byte_ops_simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "algorithms/augmentation/byte_ops_simd.cpp"
#include "hwy/foreach_target.h"

// After foreach_target.h
#include "base/vectors_inl.h"

// Compiled without fused multiply-add, which would round once where the plain form rounds twice.
HWY_BEFORE_NAMESPACE();
namespace composer::bytes::HWY_NAMESPACE {
namespace {

#if COMPOSER_HAS_VECTORS

using namespace composer::HWY_NAMESPACE;

template <class D>
HWY_INLINE hn::VFromD<D> load(D d, const uint8_t* at) {
  const hn::Rebind<int32_t, D> d32;
  return hn::ConvertTo(d, hn::PromoteTo(d32, hn::LoadU(hn::Rebind<uint8_t, D>(), at)));
}

template <class D>
HWY_INLINE hn::VFromD<D> load(D d, const float* at) {
  return hn::LoadU(d, at);
}

/// Whole numbers up to 255; packing turns negative numbers into 0.
template <class V>
HWY_INLINE auto below_256(V levels) {
  return to_int(hn::Min(levels, hn::Set(hn::DFromV<V>(), 255.0f)));
}

template <class V>
HWY_INLINE V mixed(V factor, V value, V rest, V other) {
  return hn::Add(hn::Mul(factor, value), hn::Mul(rest, other));
}

/// Stores the bytes of four vectors.
template <class Levels>
HWY_INLINE void store_packed(const Levels& levels, uint8_t* to) {
  const auto bytes = pack_bytes(levels(0), levels(1), levels(2), levels(3));
  hn::StoreU(bytes, hn::DFromV<decltype(bytes)>(), to);
}

template <class T>
HWY_INLINE int64_t blend_any(const Blend& by, const T* others, uint8_t* values, int64_t n) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto factor = hn::Set(d, by.factor), rest = hn::Set(d, by.rest);
  int64_t done = 0;
  for (; done <= n - 4 * lanes; done += 4 * lanes) {
    const auto levels = [&](int64_t i) HWY_ATTR {
      const int64_t at = done + lanes * i;
      return below_256(mixed(factor, load(d, values + at), rest, load(d, others + at)));
    };
    store_packed(levels, values + done);
  }
  return done;
}

/// Repeats the numbers of the channels over a vector that starts at value i.
template <class D>
HWY_INLINE hn::VFromD<D> cycled(D d, const std::array<float, 3>& of_channels, size_t i) {
  HWY_ALIGN std::array<float, hn::MaxLanes(D())> values;
  for (size_t j = 0; j < values.size(); ++j) values[j] = of_channels[(i + j) % 3];
  return hn::Load(d, values.data());
}

int64_t stretch_values(const Stretch& by, uint8_t* values, int64_t n) {
  const hn::ScalableTag<float> d;
  constexpr size_t lanes = hn::MaxLanes(hn::ScalableTag<float>());
  constexpr auto block = static_cast<int64_t>(12 * lanes);
  if (n < block) return 0;
  const auto added = hn::Set(d, by.added);
  const hn::VFromD<decltype(d)> least[3] = {cycled(d, by.least, 0), cycled(d, by.least, lanes),
                                            cycled(d, by.least, 2 * lanes)},
                                factors[3] = {cycled(d, by.factor, 0), cycled(d, by.factor, lanes),
                                              cycled(d, by.factor, 2 * lanes)};
  int64_t done = 0;
  for (; done <= n - block; done += block) {
    for (size_t part = 0; part < 3; ++part) {
      uint8_t* const at = values + done + 4 * lanes * part;
      const auto levels = [&](size_t i) HWY_ATTR {
        const size_t phase = (4 * part + i) % 3;
        const auto above = hn::Sub(load(d, at + lanes * i), least[phase]);
        return below_256(hn::Add(hn::Mul(above, factors[phase]), added));
      };
      store_packed(levels, at);
    }
  }
  return done;
}

using Bytes = NarrowTag<uint8_t>;
using Floats = NarrowTag<float>;
constexpr auto at_once = static_cast<int64_t>(hn::MaxLanes(Floats()));

struct Pixels {
  hn::VFromD<Floats> red, green, blue;
};

/// Bytes c, c + 3, c + 6 and c + 9 of each block.
template <uint8_t c>
HWY_INLINE hn::VFromD<Floats> channel(hn::VFromD<Bytes> pixels) {
  constexpr uint8_t no = 0x80;
  HWY_ALIGN static constexpr uint8_t which[16] = {c,     no, no, no, c + 3, no, no, no,
                                                  c + 6, no, no, no, c + 9, no, no, no};
  const auto numbers = hn::TableLookupBytesOr0(pixels, hn::LoadDup128(Bytes(), which));
  return hn::ConvertTo(Floats(), hn::BitCast(NarrowTag<int32_t>(), numbers));
}

/// `at_once` pixels; reads 4 bytes more.
HWY_INLINE Pixels load_pixels(const uint8_t* at) {
  const auto pixels = load_blocks(Bytes(), [&](size_t block) { return at + 12 * block; });
  return {channel<0>(pixels), channel<1>(pixels), channel<2>(pixels)};
}

HWY_INLINE hn::VFromD<NarrowTag<int32_t>> greys(const Pixels& from) {
  const Floats d;
  const auto red_and_green = mixed(hn::Set(d, 0.2989f), from.red, hn::Set(d, 0.587f), from.green);
  return to_int(hn::Add(red_and_green, hn::Mul(hn::Set(d, 0.114f), from.blue)));
}

/// Stores the 12 bytes of four pixels.
HWY_INLINE void store_block(hn::VFromD<hn::FixedTag<uint8_t, 16>> bytes, uint8_t* to) {
  const hn::FixedTag<uint32_t, 4> d32;
  const uint32_t last = hn::ExtractLane(hn::BitCast(d32, bytes), 2);
  hn::StoreU(hn::LowerHalf(bytes), hn::FixedTag<uint8_t, 8>(), to);
  std::memcpy(to + 8, &last, sizeof last);
}

/// Numbers up to 255 in 32 bits, negative ones as 0; writes whole pixels only.
template <class V>
HWY_INLINE void store_pixels(V red, V green, V blue, uint8_t* to) {
  constexpr uint8_t no = 0x80;
  HWY_ALIGN static constexpr uint8_t three_of_four[16] = {0,  1,  2,  4,  5,  6,  8,  9,
                                                          10, 12, 13, 14, no, no, no, no};
  const auto zero = hn::Zero(hn::DFromV<V>());
  const auto pixels = hn::Or(hn::Or(hn::Max(red, zero), hn::ShiftLeft<8>(hn::Max(green, zero))),
                             hn::ShiftLeft<16>(hn::Max(blue, zero)));
  const Bytes d;
  const auto bytes =
      hn::TableLookupBytesOr0(hn::BitCast(d, pixels), hn::LoadDup128(d, three_of_four));
  if constexpr (kBlocks<Bytes> == 1) {
    store_block(bytes, to);
  } else {
    const hn::Half<Bytes> block;
    hn::StoreU(hn::LowerHalf(block, bytes), block, to);
    store_block(hn::UpperHalf(block, bytes), to + 12);
  }
}

int64_t blend_grey_pixels(const Blend& by, uint8_t* pixels, int64_t n) {
  const Floats d;
  const auto factor = hn::Set(d, by.factor), rest = hn::Set(d, by.rest);
  int64_t done = 0;
  for (; done <= n - at_once - 2; done += at_once) {
    uint8_t* const at = pixels + 3 * done;
    const Pixels from = load_pixels(at);
    const auto grey = hn::ConvertTo(d, greys(from));
    store_pixels(below_256(mixed(factor, from.red, rest, grey)),
                 below_256(mixed(factor, from.green, rest, grey)),
                 below_256(mixed(factor, from.blue, rest, grey)), at);
  }
  return done;
}

int64_t sum_greys(const uint8_t* pixels, int64_t n, int64_t& sum) {
  const NarrowTag<uint64_t> d;
  auto sums = hn::Zero(d);
  int64_t done = 0;
  for (; done <= n - at_once - 2; done += at_once) {
    const auto bytes = hn::BitCast(Bytes(), greys(load_pixels(pixels + 3 * done)));
    sums = hn::Add(sums, hn::SumsOf8(bytes));
  }
  sum += static_cast<int64_t>(hn::GetLane(hn::SumOfLanes(d, sums)));
  return done;
}

int64_t blend_bytes(const Blend& by, const uint8_t* others, uint8_t* values, int64_t n) {
  return blend_any(by, others, values, n);
}

int64_t blend_floats(const Blend& by, const float* others, uint8_t* values, int64_t n) {
  return blend_any(by, others, values, n);
}

#else

int64_t stretch_values(const Stretch&, uint8_t*, int64_t) { return 0; }
int64_t blend_bytes(const Blend&, const uint8_t*, uint8_t*, int64_t) { return 0; }
int64_t blend_floats(const Blend&, const float*, uint8_t*, int64_t) { return 0; }
int64_t blend_grey_pixels(const Blend&, uint8_t*, int64_t) { return 0; }
int64_t sum_greys(const uint8_t*, int64_t, int64_t&) { return 0; }

#endif

}  // namespace
}  // namespace composer::bytes::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace composer::bytes {

HWY_EXPORT(stretch_values);
HWY_EXPORT(blend_bytes);
HWY_EXPORT(blend_floats);
HWY_EXPORT(blend_grey_pixels);
HWY_EXPORT(sum_greys);

int64_t stretch_first(const Stretch& by, uint8_t* values, int64_t n) {
  return HWY_DYNAMIC_DISPATCH(stretch_values)(by, values, n);
}

int64_t blend_first(const Blend& by, const uint8_t* others, uint8_t* values, int64_t n) {
  return HWY_DYNAMIC_DISPATCH(blend_bytes)(by, others, values, n);
}

int64_t blend_first(const Blend& by, const float* others, uint8_t* values, int64_t n) {
  return HWY_DYNAMIC_DISPATCH(blend_floats)(by, others, values, n);
}

int64_t blend_first_greys(const Blend& by, uint8_t* pixels, int64_t n) {
  return HWY_DYNAMIC_DISPATCH(blend_grey_pixels)(by, pixels, n);
}

int64_t sum_first_greys(const uint8_t* pixels, int64_t n, int64_t& sum) {
  return HWY_DYNAMIC_DISPATCH(sum_greys)(pixels, n, sum);
}

}  // namespace composer::bytes
#endif

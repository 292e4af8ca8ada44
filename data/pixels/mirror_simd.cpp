#include "data/pixels/mirror_simd.h"

#include <array>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "data/pixels/mirror_simd.cpp"
#include "hwy/foreach_target.h"

// After foreach_target.h
#include "base/vectors_inl.h"

HWY_BEFORE_NAMESPACE();
namespace composer::HWY_NAMESPACE {
namespace {

template <int channels>
HWY_INLINE void mirror_pixels(const uint8_t* in, int64_t width, uint8_t* out) {
  uint8_t* to = out + (width - 1) * channels;
  for (int64_t x = 0; x < width; ++x, in += channels, to -= channels)
    for (int c = 0; c < channels; ++c) to[c] = in[c];
}

#if COMPOSER_HAS_VECTORS
/// The source of byte i of `bytes` mirrored bytes.
template <int channels>
constexpr std::array<uint8_t, 64> mirror_order(int bytes) {
  std::array<uint8_t, 64> order{};
  for (int i = 0; i < bytes; ++i) {
    order[static_cast<size_t>(i)] =
        static_cast<uint8_t>(bytes - channels - i / channels * channels + i % channels);
  }
  return order;
}
#endif

#if HWY_TARGET == HWY_AVX3_DL

template <int channels>
void mirror(MirroredRows r) {
  constexpr int64_t block = 64 / channels * channels;
  static constexpr auto kOrder = mirror_order<channels>(block);
  constexpr __mmask64 whole = ~0ULL >> (64 - block);
  const __m512i order = _mm512_loadu_si512(kOrder.data());
  const int64_t bytes = r.width * channels, rest = bytes % block;
  const __mmask64 part = rest == 0 ? 0 : ~0ULL >> (64 - rest);
  const __m512i part_order =
      _mm512_sub_epi8(order, _mm512_set1_epi8(static_cast<char>(block - rest)));
  for (; r.count > 0; --r.count, r.in += r.in_stride, r.out += r.out_stride) {
    uint8_t* to = r.out;
    for (int64_t at = bytes - block; at >= 0; at -= block, to += block) {
      const __m512i pixels = _mm512_maskz_loadu_epi8(whole, r.in + at);
      _mm512_mask_storeu_epi8(to, whole, _mm512_permutexvar_epi8(order, pixels));
    }
    const __m512i pixels = _mm512_maskz_loadu_epi8(part, r.in);
    _mm512_mask_storeu_epi8(to, part, _mm512_permutexvar_epi8(part_order, pixels));
  }
}

#elif COMPOSER_HAS_VECTORS

/// Each vector is stored whole: the next vector overwrites its bytes beyond the block. The row's
/// last block overlaps the one before it and is stored as two halves of a vector.
template <int channels>
void mirror(MirroredRows r) {
  constexpr int64_t pixels = 16 / channels, block = pixels * channels;
  alignas(16) static constexpr auto kOrder = mirror_order<channels>(block);
  const hn::FixedTag<uint8_t, 16> d;
  const hn::FixedTag<uint8_t, 8> half;
  const auto last_order = hn::Load(d, kOrder.data());
  // A block is shorter than a vector and lies in the vector's last bytes.
  const auto order = hn::Add(last_order, hn::Set(d, uint8_t{16 - block}));
  const auto halves_order =
      hn::Combine(d, hn::LoadU(half, kOrder.data() + block - 8), hn::LowerHalf(half, last_order));
  for (; r.count > 0; --r.count, r.in += r.in_stride, r.out += r.out_stride) {
    if (r.width <= pixels) {
      mirror_pixels<channels>(r.in, r.width, r.out);
      continue;
    }
    uint8_t* to = r.out;
    const uint8_t* from = r.in + r.width * channels - 16;
    const auto copy_block = [&]() HWY_ATTR {
      hn::StoreU(hn::TableLookupBytes(hn::LoadU(d, from), order), d, to);
      to += block, from -= block;
    };
    int64_t left = r.width;
    for (; left > 4 * pixels; left -= 4 * pixels)
      copy_block(), copy_block(), copy_block(), copy_block();
    for (; left > pixels; left -= pixels) copy_block();
    const auto last = hn::TableLookupBytes(hn::LoadU(d, r.in), halves_order);
    uint8_t* const end = r.out + r.width * channels;
    hn::StoreU(hn::LowerHalf(half, last), half, end - block);
    hn::StoreU(hn::UpperHalf(half, last), half, end - 8);
  }
}

#else

template <int channels>
void mirror(MirroredRows r) {
  for (; r.count > 0; --r.count, r.in += r.in_stride, r.out += r.out_stride)
    mirror_pixels<channels>(r.in, r.width, r.out);
}

#endif

void mirror_any(const MirroredRows& rows, int64_t channels) {
  channels == 3 ? mirror<3>(rows) : mirror<1>(rows);
}

}  // namespace
}  // namespace composer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace composer {

HWY_EXPORT(mirror_any);

void mirror_rows(const MirroredRows& rows, int64_t channels) {
  HWY_DYNAMIC_DISPATCH(mirror_any)(rows, channels);
}

}  // namespace composer
#endif

#include "data/jpeg/requantize_simd.h"

#include <bit>
#include <cstddef>
#include <cstring>

#include "data/jpeg/natural_order.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "data/jpeg/requantize_simd.cpp"
#include "hwy/foreach_target.h"

// After foreach_target.h
#include "base/vectors_inl.h"

HWY_BEFORE_NAMESPACE();
namespace composer::HWY_NAMESPACE {
namespace {

#if COMPOSER_HAS_VECTORS

constexpr int16_t kLargest = 1023;

using Floats = hn::CappedTag<float, 16>;
using Row = hn::CappedTag<float, 8>;

template <class D>
HWY_INLINE hn::VFromD<D> load(D d, const int16_t* from) {
  const hn::Rebind<int16_t, D> narrow;
  const hn::Rebind<int32_t, D> wide;
  return hn::ConvertTo(d, hn::PromoteTo(wide, hn::LoadU(narrow, from)));
}

template <class D>
HWY_INLINE void store_rounded(D d, hn::VFromD<D> values, int16_t* to) {
  const hn::Rebind<int16_t, D> narrow;
  const auto rounded = hn::DemoteTo(narrow, to_nearest_int(values));
  const auto most = hn::Set(narrow, kLargest), least = hn::Neg(most);
  hn::StoreU(hn::Max(hn::Min(rounded, most), least), narrow, to);
}

#if HWY_TARGET <= HWY_AVX3

struct ZigzagWords {
  std::array<uint16_t, 64> at{};
  constexpr ZigzagWords() {
    for (size_t i = 0; i < 64; ++i) at[i] = kNatural.at[i + 1];
  }
};
constexpr ZigzagWords kZigzag;

HWY_INLINE uint64_t to_zigzag(const int16_t* natural, int16_t* out) {
  const __m512i low = _mm512_loadu_si512(natural), high = _mm512_loadu_si512(natural + 32);
  uint64_t mask = 0;
  for (const int i : {0, 32}) {
    const __m512i order = _mm512_loadu_si512(kZigzag.at.data() + i);
    const __m512i half = _mm512_permutex2var_epi16(low, order, high);
    _mm512_storeu_si512(out + i, half);
    mask |= uint64_t{_mm512_test_epi16_mask(half, half)} << i;
  }
  return mask;
}

#else

HWY_INLINE uint64_t to_zigzag(const int16_t* natural, int16_t* out) {
  for (size_t i = 0; i < 64; ++i) out[i] = natural[kNatural.at[i + 1]];
  const hn::CappedTag<int16_t, 32> d;
  uint64_t mask = 0;
  for (size_t i = 0; i < 64; i += hn::Lanes(d)) {
    uint8_t bits[8] = {};
    hn::StoreMaskBits(d, hn::Ne(hn::LoadU(d, out + i), hn::Zero(d)), bits);
    uint64_t word;
    std::memcpy(&word, bits, sizeof word);
    mask |= word << i;
  }
  return mask;
}

#endif

uint64_t scale(const int16_t* block, const JpegFactors& factors, int16_t* out) {
  const Floats d;
  HWY_ALIGN int16_t natural[64];
  for (size_t i = 0; i < 64; i += hn::Lanes(d))
    store_rounded(d, hn::Mul(load(d, block + i), hn::LoadU(d, factors.data() + i)), natural + i);
  return to_zigzag(natural, out);
}

uint64_t halve(const std::array<const int16_t*, 4>& blocks, const JpegFactors& source,
               const JpegFactors& factors, int16_t* out) {
  const Row row;
  HWY_ALIGN float all[16 * 16], halved[8 * 16];
  for (size_t b = 0; b < 4; ++b)
    for (size_t i = 0; i < 64; i += hn::Lanes(row))
      hn::StoreU(hn::Mul(load(row, blocks[b] + i), hn::LoadU(row, source.data() + i)), row,
                 all + (8 * (b / 2) + i / 8) * 16 + 8 * (b % 2) + i % 8);

  const Floats d;
  const auto& halving = jpeg_halving();
  for (size_t x = 0; x < 16; x += hn::Lanes(d)) {
    hn::VFromD<Floats> sums[8];
    for (auto& sum : sums) sum = hn::Zero(d);
    for (size_t k = 0; k < 16; ++k) {
      const auto values = hn::LoadU(d, all + 16 * k + x);
      for (size_t y = 0; y < 8; ++y)
        sums[y] = hn::Add(sums[y], hn::Mul(hn::Set(d, halving.matrix[16 * y + k]), values));
    }
    for (size_t y = 0; y < 8; ++y) hn::StoreU(sums[y], d, halved + 16 * y + x);
  }

  HWY_ALIGN int16_t natural[64];
  for (size_t x = 0; x < 8; x += hn::Lanes(row)) {
    hn::VFromD<Row> sums[8];
    for (auto& sum : sums) sum = hn::Zero(row);
    for (size_t k = 0; k < 16; ++k) {
      const auto values = hn::LoadU(row, halving.transposed.data() + 8 * k + x);
      for (size_t y = 0; y < 8; ++y)
        sums[y] = hn::Add(sums[y], hn::Mul(hn::Set(row, halved[16 * y + k]), values));
    }
    for (size_t y = 0; y < 8; ++y)
      store_rounded(row, hn::Mul(sums[y], hn::LoadU(row, factors.data() + 8 * y + x)),
                    natural + 8 * y + x);
  }
  return to_zigzag(natural, out);
}

constexpr uint8_t kZeroRun = 0xF0, kEndOfBlock = 0;

HWY_INLINE bool has_255(uint64_t word) {
  constexpr uint64_t kOnes = 0x0101010101010101;
  const uint64_t inverted = ~word;
  return ((inverted - kOnes) & ~inverted & (kOnes << 7)) != 0;
}

HWY_INLINE void write(uint64_t word, uint8_t*& to) {
  if (!has_255(word)) [[likely]] {
    const uint64_t swapped = __builtin_bswap64(word);
    std::memcpy(to, &swapped, sizeof swapped);
    to += sizeof swapped;
    return;
  }
  for (int shift = 56; shift >= 0; shift -= 8) {
    *to++ = static_cast<uint8_t>(word >> shift);
    if (to[-1] == 0xFF) *to++ = 0;
  }
}

void encode(JpegBits& state, const JpegCodes& dc, const JpegCodes& ac, int32_t difference,
            const int16_t* block, uint64_t present) {
  uint64_t bits = state.bits;
  int room = 64 - state.count;
  uint8_t* to = state.to;
  const auto put = [&](uint32_t code, int length) HWY_ATTR {
    room -= length;
    if (room >= 0) [[likely]] {
      bits = bits << length | code;
      return;
    }
    write(bits << (length + room) | code >> -room, to);
    room += 64;
    bits = code;
  };
  const auto put_value = [&](const JpegCodes& codes, size_t zeros, int32_t value) HWY_ATTR {
    const int32_t sign = value >> 31;
    const auto size = std::bit_width(static_cast<uint32_t>((value ^ sign) - sign));
    const auto [code, length] = codes[zeros << 4 | static_cast<size_t>(size)];
    const auto below = static_cast<uint32_t>(value + sign) & ((1U << size) - 1);
    put(uint32_t{code} << size | below, length + static_cast<int>(size));
  };
  put_value(dc, 0, difference);
  int last = 0;
  for (uint64_t left = present & ~uint64_t{1}; left != 0; left &= left - 1) {
    const int place = std::countr_zero(left);
    int zeros = place - last - 1;
    for (; zeros > 15; zeros -= 16) put(ac[kZeroRun].code, ac[kZeroRun].length);
    put_value(ac, static_cast<size_t>(zeros), block[place]);
    last = place;
  }
  if (last < 63) put(ac[kEndOfBlock].code, ac[kEndOfBlock].length);
  state = {bits, 64 - room, to};
}

constexpr RequantizeKernels kKernels{scale, halve, encode};

#else

constexpr RequantizeKernels kKernels{};

#endif

const RequantizeKernels& kernels() { return kKernels; }

}  // namespace
}  // namespace composer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace composer {

const JpegHalving& jpeg_halving() {
  static const JpegHalving halving = [] {
    // Transforms two blocks to pixels, averages them in pairs and transforms the eight averages
    // back.
    const auto wave = [](size_t frequency, size_t pixel) {
      // cos(k pi / 16), the same on every machine
      constexpr double kCosines[] = {1,
                                     0.98078528040323044913,
                                     0.92387953251128675613,
                                     0.83146961230254523708,
                                     0.70710678118654752440,
                                     0.55557023301960222474,
                                     0.38268343236508977173,
                                     0.19509032201612826785,
                                     0};
      const size_t angle = (2 * pixel + 1) * frequency % 32, half = angle > 16 ? 32 - angle : angle;
      const double cosine = half > 8 ? -kCosines[16 - half] : kCosines[half];
      return (frequency == 0 ? kCosines[4] : 1) / 2 * cosine;
    };
    JpegHalving made;
    for (size_t to = 0; to < 8; ++to)
      for (size_t from = 0; from < 16; ++from) {
        double sum = 0;
        for (size_t pair = 0; pair < 4; ++pair)
          sum += wave(to, pair + 4 * (from / 8)) *
                 (wave(from % 8, 2 * pair) + wave(from % 8, 2 * pair + 1)) / 2;
        made.matrix[16 * to + from] = made.transposed[8 * from + to] = static_cast<float>(sum);
      }
    return made;
  }();
  return halving;
}

HWY_EXPORT(kernels);

const RequantizeKernels& requantize_kernels() { return HWY_DYNAMIC_DISPATCH(kernels)(); }

}  // namespace composer
#endif

#include "data/jpeg/reconstruct_simd.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "data/jpeg/reconstruct_simd.cpp"
#include "hwy/foreach_target.h"

// After foreach_target.h
#include "base/vectors_inl.h"

HWY_BEFORE_NAMESPACE();
namespace composer::HWY_NAMESPACE {
namespace {

#if COMPOSER_HAS_VECTORS

using D8 = NarrowTag<uint8_t>;
using D16 = NarrowTag<int16_t>;
using D32 = NarrowTag<int32_t>;
using D64 = NarrowTag<int64_t>;
using V8 = hn::VFromD<D8>;
using V16 = hn::VFromD<D16>;
using V32 = hn::VFromD<D32>;

/// Blocks at a time: one in each 16 bytes of a vector.
constexpr int kAtOnce = static_cast<int>(kBlocks<D16>);

/// The factors of the inverse DCT (Loeffler, Ligtenberg, Moschytz 1989), in 1/8192.
constexpr int kF0298 = 2446, kF0390 = 3196, kF0541 = 4433, kF0765 = 6270, kF0899 = 7373,
              kF1175 = 9633, kF1501 = 12299, kF1847 = 15137, kF1961 = 16069, kF2053 = 16819,
              kF2562 = 20995, kF3072 = 25172;
constexpr int kFactorBits = 13, kPassBits = 2;

/// 32-bit numbers for the words of a vector: the left four of each block, the right four.
struct Wide {
  V32 left, right;

  friend HWY_INLINE Wide operator+(const Wide& a, const Wide& b) {
    return {hn::Add(a.left, b.left), hn::Add(a.right, b.right)};
  }
  friend HWY_INLINE Wide operator-(const Wide& a, const Wide& b) {
    return {hn::Sub(a.left, b.left), hn::Sub(a.right, b.right)};
  }
};

/// The words of two vectors, interleaved.
struct Pairs {
  V16 left, right;

  HWY_INLINE Pairs(V16 a, V16 b)
      : left(hn::InterleaveLower(a, b)), right(hn::InterleaveUpper(D16(), a, b)) {}

  /// a * x + b * y
  template <int x, int y>
  HWY_INLINE Wide times() const {
    const auto factors = hn::BitCast(
        D16(), hn::Set(D32(), static_cast<int32_t>((static_cast<uint32_t>(y) << 16) |
                                                   (static_cast<uint32_t>(x) & 0xFFFF))));
    return {multiply_pairs(left, factors), multiply_pairs(right, factors)};
  }
};

HWY_INLINE Wide scaled_up(V16 v) {
  const Pairs high(hn::Zero(D16()), v);
  return {hn::ShiftRight<16 - kFactorBits>(hn::BitCast(D32(), high.left)),
          hn::ShiftRight<16 - kFactorBits>(hn::BitCast(D32(), high.right))};
}

template <int bits>
HWY_INLINE V16 scaled_down(const Wide& w) {
  const auto half = hn::Set(D32(), 1 << (bits - 1));
  return hn::ReorderDemote2To(D16(), hn::ShiftRight<bits>(hn::Add(w.left, half)),
                              hn::ShiftRight<bits>(hn::Add(w.right, half)));
}

/// One pass of the inverse DCT over eight vectors; each lane is a row or column of its own.
template <int bits>
HWY_INLINE void transform_once(V16 (&v)[8]) {
  const Pairs even(v[2], v[6]);
  const Wide odd_sum = even.times<kF0541 + kF0765, kF0541>();
  const Wide odd_difference = even.times<kF0541, kF0541 - kF1847>();
  const Wide sum = scaled_up(hn::Add(v[0], v[4])), difference = scaled_up(hn::Sub(v[0], v[4]));
  const Wide a0 = sum + odd_sum, a3 = sum - odd_sum;
  const Wide a1 = difference + odd_difference, a2 = difference - odd_difference;

  const Pairs outer(hn::Add(v[7], v[3]), hn::Add(v[5], v[1]));
  const Wide z3 = outer.times<kF1175 - kF1961, kF1175>();
  const Wide z4 = outer.times<kF1175, kF1175 - kF0390>();
  const Pairs seven_one(v[7], v[1]), five_three(v[5], v[3]);
  const Wide b0 = seven_one.times<kF0298 - kF0899, -kF0899>() + z3;
  const Wide b3 = seven_one.times<-kF0899, kF1501 - kF0899>() + z4;
  const Wide b1 = five_three.times<kF2053 - kF2562, -kF2562>() + z4;
  const Wide b2 = five_three.times<-kF2562, kF3072 - kF2562>() + z3;

  v[0] = scaled_down<bits>(a0 + b3), v[7] = scaled_down<bits>(a0 - b3);
  v[1] = scaled_down<bits>(a1 + b2), v[6] = scaled_down<bits>(a1 - b2);
  v[2] = scaled_down<bits>(a2 + b1), v[5] = scaled_down<bits>(a2 - b1);
  v[3] = scaled_down<bits>(a3 + b0), v[4] = scaled_down<bits>(a3 - b0);
}

template <class D>
HWY_INLINE V16 lower(V16 a, V16 b) {
  return hn::BitCast(D16(), hn::InterleaveLower(hn::BitCast(D(), a), hn::BitCast(D(), b)));
}
template <class D>
HWY_INLINE V16 upper(V16 a, V16 b) {
  return hn::BitCast(D16(), hn::InterleaveUpper(D(), hn::BitCast(D(), a), hn::BitCast(D(), b)));
}

/// Transposes each block.
HWY_INLINE void transpose(V16 (&v)[8]) {
  V16 a[8], b[8];
  for (int i = 0; i < 4; ++i) {
    a[2 * i] = lower<D16>(v[2 * i], v[2 * i + 1]);
    a[2 * i + 1] = upper<D16>(v[2 * i], v[2 * i + 1]);
  }
  for (int i = 0; i < 2; ++i) {
    b[4 * i] = lower<D32>(a[4 * i], a[4 * i + 2]),
          b[4 * i + 1] = upper<D32>(a[4 * i], a[4 * i + 2]);
    b[4 * i + 2] = lower<D32>(a[4 * i + 1], a[4 * i + 3]);
    b[4 * i + 3] = upper<D32>(a[4 * i + 1], a[4 * i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    v[2 * i] = lower<D64>(b[i], b[i + 4]);
    v[2 * i + 1] = upper<D64>(b[i], b[i + 4]);
  }
}

/// Sets all bits of blocks whose words are all 0, and no bit of others.
HWY_INLINE V16 zero_blocks(V16 v) {
  const D64 d;
  const auto words = hn::BitCast(d, v);
  const auto both = hn::Or(words, hn::BitCast(d, hn::Shuffle1032(hn::BitCast(D32(), v))));
  return hn::BitCast(D16(), hn::VecFromMask(d, hn::Eq(both, hn::Zero(d))));
}

/// kAtOnce blocks of coefficients, one after the other.
HWY_INLINE void transform_blocks(int16_t* coefficients, const JpegTarget* targets) {
  const D16 d;
  const hn::FixedTag<int16_t, 8> block;
  const auto zero = hn::Zero(block);
  V16 v[8];
  auto below = hn::Zero(d);
  for (int y = 0; y < 8; ++y) {
    v[y] = load_blocks(d, [&](int i) HWY_ATTR { return coefficients + 64 * i + 8 * y; });
    if (y > 0) below = hn::Or(below, v[y]);
  }
  for (int i = 0; i < 8 * kAtOnce; ++i) hn::StoreU(zero, block, coefficients + 8 * i);
  for (int y = 0; y < 8; ++y) {
    v[y] = hn::Mul(v[y],
                   load_blocks(d, [&](int i) HWY_ATTR { return targets[i].quantization + 8 * y; }));
  }
  // Blocks with one row of coefficients wrap around, others saturate.
  const auto flat = zero_blocks(below);
  const bool all_flat = hn::AllTrue(d, hn::Ne(flat, hn::Zero(d)));
  const auto first = hn::ShiftLeft<kPassBits>(v[0]);
  if (all_flat) {
    for (auto& row : v) row = first;
  } else {
    const bool any_flat = !hn::AllTrue(d, hn::Eq(flat, hn::Zero(d)));
    transform_once<kFactorBits - kPassBits>(v);
    if (any_flat)
      for (auto& row : v) row = hn::IfVecThenElse(flat, first, row);
  }
  transpose(v);
  transform_once<kFactorBits + kPassBits + 3>(v);
  transpose(v);
  const auto middle = hn::Set(d, int16_t{128});
  for (int y = 0; y < 8; y += 2) {
    const auto rows =
        pack_words(hn::SaturatedAdd(v[y], middle), hn::SaturatedAdd(v[y + 1], middle));
    HWY_ALIGN uint8_t bytes[16 * kAtOnce];
    hn::Store(rows, D8(), bytes);
    for (int i = 0; i < kAtOnce; ++i) {
      std::memcpy(targets[i].samples + y * targets[i].stride, bytes + 16 * i, 8);
      std::memcpy(targets[i].samples + (y + 1) * targets[i].stride, bytes + 16 * i + 8, 8);
    }
  }
}

void transform(int16_t* blocks, int64_t count, const JpegTarget* targets) {
  int64_t i = 0;
  for (; i + kAtOnce <= count; i += kAtOnce) transform_blocks(blocks + 64 * i, targets + i);
  if (i == count) return;
  HWY_ALIGN int16_t last[64 * kAtOnce] = {};
  uint8_t spare[64];
  JpegTarget target[kAtOnce];
  std::fill_n(target, kAtOnce, JpegTarget{spare, 8, targets[i].quantization});
  target[0] = targets[i];
  std::copy_n(blocks + 64 * i, 64, last);
  std::fill_n(blocks + 64 * i, 64, int16_t{0});
  transform_blocks(last, target);
}

/// Two rows of chroma samples weighed 3 to 1; sums[i + 1] belongs to sample i. The outermost sums
/// are repeated on both sides.
HWY_INLINE void weigh_rows(const uint8_t* const (&rows)[2], int64_t begin, int64_t end,
                           int64_t width, int16_t* sums) {
  const D16 d;
  const hn::Rebind<uint8_t, D16> narrow;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t x = begin; x < end; x += lanes) {
    const auto near = hn::PromoteTo(d, hn::LoadU(narrow, rows[0] + x));
    const auto far = hn::PromoteTo(d, hn::LoadU(narrow, rows[1] + x));
    hn::StoreU(hn::Add(hn::Add(near, hn::Add(near, near)), far), d, sums + 1 + x);
  }
  if (begin == 0) sums[0] = sums[1];
  if (end >= width) sums[width + 1] = sums[width];
}

/// A word for each pixel: pixels of the lower halves of a vector's 16-byte blocks in `left`, of the
/// upper halves in `right`. 128 is subtracted from chroma.
struct Words {
  V16 left, right;

  static HWY_INLINE Words luma(V8 samples) {
    const auto zero = hn::Zero(D8());
    return {hn::BitCast(D16(), hn::InterleaveLower(samples, zero)),
            hn::BitCast(D16(), hn::InterleaveUpper(D8(), samples, zero))};
  }

  static HWY_INLINE Words chroma(V8 samples) {
    const auto middle = hn::Set(D16(), int16_t{128});
    const Words words = luma(samples);
    return {hn::Sub(words.left, middle), hn::Sub(words.right, middle)};
  }

  /// Two pixels for each sample. sums: weigh_rows' sum of the first sample.
  static HWY_INLINE Words chroma(const int16_t* sums) {
    const D16 d;
    const auto here = hn::LoadU(d, sums), thrice = hn::Add(here, hn::Add(here, here));
    const auto before = hn::Add(hn::LoadU(d, sums - 1), hn::Set(d, int16_t{8}));
    const auto after = hn::Add(hn::LoadU(d, sums + 1), hn::Set(d, int16_t{7}));
    const auto middle = hn::Set(d, int16_t{128});
    const auto even = hn::Sub(hn::ShiftRight<4>(hn::Add(thrice, before)), middle);
    const auto odd = hn::Sub(hn::ShiftRight<4>(hn::Add(thrice, after)), middle);
    return {hn::InterleaveLower(even, odd), hn::InterleaveUpper(d, even, odd)};
  }
};

struct Colors {
  V16 red, green, blue;

  /// v * x in 65536ths, rounded.
  template <int x>
  static HWY_INLINE V16 part(V16 v) {
    const D16 d;
    const auto twice = hn::MulHigh(hn::Add(v, v), hn::Set(d, static_cast<int16_t>(x)));
    return hn::ShiftRight<1>(hn::Add(twice, hn::Set(d, int16_t{1})));
  }

  HWY_INLINE Colors(V16 luma, V16 cb, V16 cr) {
    // 1.402, 1.772, -0.34414 and -0.71414 in 65536ths are 91881, 116130, -22554 and -46802.
    red = hn::Add(hn::Add(luma, cr), part<91881 - 65536>(cr));
    blue = hn::Add(hn::Add(luma, hn::Add(cb, cb)), part<116130 - 2 * 65536>(cb));
    const Wide both = Pairs(cb, cr).times<-22554, 65536 - 46802>();
    green = hn::Add(hn::Sub(luma, cr), scaled_down<16>(both));
  }
};

constexpr auto kPixels = static_cast<int64_t>(hn::MaxLanes(D8()));

/// Computes kPixels pixels, skips the first `skipped` and writes the next `wanted`.
HWY_INLINE void write_pixels(const Words& luma, const Words& cb, const Words& cr, int64_t skipped,
                             int64_t wanted, uint8_t* rgb) {
  const D8 d;
  const Colors left(luma.left, cb.left, cr.left), right(luma.right, cb.right, cr.right);
  const auto red = pack_words(left.red, right.red);
  const auto green = pack_words(left.green, right.green);
  const auto blue = pack_words(left.blue, right.blue);
  if (wanted == kPixels) return hn::StoreInterleaved3(red, green, blue, d, rgb);
  HWY_ALIGN uint8_t spare[3 * kPixels];
  hn::StoreInterleaved3(red, green, blue, d, spare);
  std::memcpy(rgb, spare + 3 * skipped, static_cast<size_t>(3 * wanted));
}

void color_full(const JpegColorRow& row, uint8_t* rgb) {
  const D8 d;
  for (int64_t x = row.first, left = row.count; left > 0; x += kPixels, left -= kPixels) {
    const auto luma = Words::luma(hn::LoadU(d, row.luma + x));
    const auto cb = Words::chroma(hn::LoadU(d, row.blue[0] + x));
    const auto cr = Words::chroma(hn::LoadU(d, row.red[0] + x));
    write_pixels(luma, cb, cr, 0, std::min(kPixels, left), rgb);
    rgb += 3 * kPixels;
  }
}

void color_halved(const JpegColorRow& row, int16_t* sums, uint8_t* rgb) {
  // Begins at an even pixel, since each sample gives two.
  const int64_t begin = row.first / 2, end = (row.first + row.count + 1) / 2;
  const int64_t from = std::max<int64_t>(begin - 1, 0);
  const int64_t to = std::min(end + kPixels / 2 + 1, row.chroma_width);
  int16_t* const red_sums = sums + row.chroma_width + 128;
  weigh_rows(row.blue, from, to, row.chroma_width, sums);
  weigh_rows(row.red, from, to, row.chroma_width, red_sums);
  int64_t skipped = row.first - 2 * begin;
  for (int64_t x = 2 * begin; x < row.first + row.count; x += kPixels) {
    const auto luma = Words::luma(hn::LoadU(D8(), row.luma + x));
    const auto cb = Words::chroma(sums + 1 + x / 2), cr = Words::chroma(red_sums + 1 + x / 2);
    const int64_t wanted = std::min(kPixels, row.first + row.count - x) - skipped;
    write_pixels(luma, cb, cr, skipped, wanted, rgb);
    rgb += 3 * wanted, skipped = 0;
  }
}

constexpr JpegKernels kKernels{transform, color_full, color_halved};

#else

constexpr JpegKernels kKernels{};

#endif

const JpegKernels& kernels() { return kKernels; }

}  // namespace
}  // namespace composer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace composer {

HWY_EXPORT(kernels);

const JpegKernels& jpeg_kernels() { return HWY_DYNAMIC_DISPATCH(kernels)(); }

}  // namespace composer
#endif

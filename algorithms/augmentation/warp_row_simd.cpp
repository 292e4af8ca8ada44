#include "algorithms/augmentation/warp_row_simd.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "algorithms/augmentation/warp_row_simd.cpp"
#include "hwy/foreach_target.h"

// After foreach_target.h
#include "base/vectors_inl.h"

// Compiled without contraction, so that operations that round twice in plain code are not fused.
HWY_BEFORE_NAMESPACE();
namespace composer::HWY_NAMESPACE {
namespace {

#if COMPOSER_HAS_VECTORS && HWY_NATIVE_FMA

using Bytes = NarrowTag<uint8_t>;
using Ints = NarrowTag<int32_t>;
using Floats = NarrowTag<float>;
using ByteVector = hn::VFromD<Bytes>;
using IntVector = hn::VFromD<Ints>;
using FloatVector = hn::VFromD<Floats>;

constexpr size_t lanes = hn::MaxLanes(Floats());

/// The positions of `lanes` pixels from column `first` on.
HWY_INLINE FloatVector positions(const WarpAxis& axis, float row, size_t first) {
  const Floats d;
  auto sum = hn::MulAdd(hn::Set(d, row), hn::Set(d, axis.of_row),
                        hn::LoadU(d, axis.of_column.data() + first));
  sum = hn::Add(hn::Add(sum, hn::Set(d, axis.constant)), hn::Set(d, 1.0f));
  const auto position = hn::MulSub(sum, hn::Set(d, axis.half), hn::Set(d, 0.5f));
  return hn::Min(hn::Max(position, hn::Set(d, -1.0f)), hn::Set(d, axis.last));
}

HWY_INLINE IntVector offsets_of(const WarpFrame& from, IntVector columns, IntVector rows) {
  const Ints d;
  return hn::Add(hn::Mul(rows, hn::Set(d, from.row)), hn::Mul(columns, hn::Set(d, from.channels)));
}

/// How `lanes` pixels are blended. shares: the weights of the upper left, upper right, lower left
/// and lower right pixel; vector i holds the weights of pixels i, i + 4, ...
struct Blends {
  alignas(32) int32_t offsets[lanes];
  alignas(32) float shares[4 * lanes];
};

/// The lower, or upper, halves of the blocks of a and b, interleaved.
HWY_INLINE FloatVector lower_halves(FloatVector a, FloatVector b) {
  const NarrowTag<double> d;
  return hn::BitCast(Floats(), hn::InterleaveLower(d, hn::BitCast(d, a), hn::BitCast(d, b)));
}
HWY_INLINE FloatVector upper_halves(FloatVector a, FloatVector b) {
  const NarrowTag<double> d;
  return hn::BitCast(Floats(), hn::InterleaveUpper(d, hn::BitCast(d, a), hn::BitCast(d, b)));
}

void find_blends(const WarpAxis& x, const WarpAxis& y, float row, const WarpFrame& from,
                 size_t groups, Blends* out) {
  const Floats d;
  const auto one = hn::Set(d, 1.0f);
  for (size_t group = 0; group < groups; ++group) {
    const auto column = positions(x, row, lanes * group), line = positions(y, row, lanes * group);
    const auto left = to_int(hn::Add(column, one)), top = to_int(hn::Add(line, one));
    const auto east = hn::Sub(column, hn::Sub(hn::ConvertTo(d, left), one)),
               south = hn::Sub(line, hn::Sub(hn::ConvertTo(d, top), one)),
               west = hn::Sub(one, east), north = hn::Sub(one, south);
    const auto north_west = hn::Mul(north, west), north_east = hn::Mul(north, east),
               south_west = hn::Mul(south, west), south_east = hn::Mul(south, east);
    const auto upper = hn::InterleaveLower(d, north_west, north_east),
               upper_rest = hn::InterleaveUpper(d, north_west, north_east),
               lower = hn::InterleaveLower(d, south_west, south_east),
               lower_rest = hn::InterleaveUpper(d, south_west, south_east);
    Blends& to = out[group];
    hn::Store(offsets_of(from, left, top), Ints(), to.offsets);
    hn::Store(lower_halves(upper, lower), d, to.shares);
    hn::Store(upper_halves(upper, lower), d, to.shares + lanes);
    hn::Store(lower_halves(upper_rest, lower_rest), d, to.shares + 2 * lanes);
    hn::Store(upper_halves(upper_rest, lower_rest), d, to.shares + 3 * lanes);
  }
}

/// One pixel per block: bytes `which` of `pixels` as numbers, times one of the shares.
template <int share>
HWY_INLINE FloatVector weighted(ByteVector pixels, ByteVector which, FloatVector shares) {
  const auto numbers = hn::BitCast(Ints(), hn::TableLookupBytesOr0(pixels, which));
  return hn::Mul(hn::ConvertTo(Floats(), numbers), hn::Broadcast<share>(shares));
}

/// Indices that expand the three bytes of a pixel at `first` to four numbers, the last 0.
template <uint8_t first>
HWY_INLINE ByteVector channels_at() {
  constexpr uint8_t no = 0x80;
  alignas(16) static constexpr uint8_t which[16] = {first,     no, no, no, first + 1, no, no, no,
                                                    first + 2, no, no, no, no,        no, no, no};
  return hn::LoadDup128(Bytes(), which);
}

/// The blended pixels i, i + 4, ..., each channel in 32 bits.
HWY_INLINE IntVector blended(const Blends& blends, size_t i, const WarpFrame& from) {
  const auto left = channels_at<0>(), right = channels_at<3>();
  const auto shares = hn::Load(Floats(), blends.shares + lanes * i);
  const auto pixel = [&](size_t block)
                         HWY_ATTR { return from.pixels + blends.offsets[i + 4 * block]; };
  const auto above = load_blocks(Bytes(), pixel);
  const auto below =
      load_blocks(Bytes(), [&](size_t block) HWY_ATTR { return pixel(block) + from.row; });
  auto sum = hn::Add(weighted<0>(above, left, shares), weighted<1>(above, right, shares));
  sum = hn::Add(sum, weighted<2>(below, left, shares));
  sum = hn::Add(sum, weighted<3>(below, right, shares));
  return to_nearest_int(sum);
}

/// Writes `lanes` pixels, followed by 4 unused bytes.
HWY_INLINE void blend(const Blends& blends, const WarpFrame& from, uint8_t* out) {
  constexpr uint8_t no = 0x80;
  alignas(16) static constexpr uint8_t three_of_four[16] = {0,  1,  2,  4,  5,  6,  8,  9,
                                                            10, 12, 13, 14, no, no, no, no};
  const auto packed = pack_in_blocks(blended(blends, 0, from), blended(blends, 1, from),
                                     blended(blends, 2, from), blended(blends, 3, from));
  const auto bytes = hn::TableLookupBytesOr0(packed, hn::LoadDup128(Bytes(), three_of_four));
  if constexpr (kBlocks<Bytes> == 1) {
    hn::StoreU(bytes, Bytes(), out);
  } else {
    const hn::Half<Bytes> block;
    hn::StoreU(hn::LowerHalf(block, bytes), block, out);
    hn::StoreU(hn::UpperHalf(block, bytes), block, out + 12);
  }
}

bool nearest_offsets(const WarpAxis& x, const WarpAxis& y, float row, const WarpFrame& from,
                     int32_t* offsets) {
  if (!x.fusible || !y.fusible) return false;
  const Ints d;
  const auto one = hn::Set(d, 1);
  for (size_t i = 0; i < x.of_column.size(); i += lanes) {
    const auto column = to_nearest_int(positions(x, row, i)),
               line = to_nearest_int(positions(y, row, i));
    hn::StoreU(offsets_of(from, hn::Add(column, one), hn::Add(line, one)), d, offsets + i);
  }
  return true;
}

bool blend_row(const WarpAxis& x, const WarpAxis& y, float row, const WarpFrame& from, int64_t n,
               uint8_t* out) {
  if (!x.fusible || !y.fusible) return false;
  constexpr auto pixels = static_cast<int64_t>(lanes);
  thread_local std::vector<Blends> scratch;
  const size_t groups = x.of_column.size() / lanes;
  scratch.resize(groups);
  find_blends(x, y, row, from, groups, scratch.data());
  for (const Blends* blends = scratch.data(); n > 0; ++blends, out += 3 * lanes, n -= pixels) {
    uint8_t last[3 * lanes + 8];
    const bool whole = n >= pixels + 2;
    blend(*blends, from, whole ? out : last);
    if (!whole) std::memcpy(out, last, static_cast<size_t>(3 * std::min(n, pixels)));
  }
  return true;
}

#else

bool nearest_offsets(const WarpAxis&, const WarpAxis&, float, const WarpFrame&, int32_t*) {
  return false;
}

bool blend_row(const WarpAxis&, const WarpAxis&, float, const WarpFrame&, int64_t, uint8_t*) {
  return false;
}

#endif

}  // namespace
}  // namespace composer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace composer {

HWY_EXPORT(nearest_offsets);
HWY_EXPORT(blend_row);

bool nearest_offsets_fused(const WarpAxis& x, const WarpAxis& y, float row, const WarpFrame& from,
                           int32_t* offsets) {
  return HWY_DYNAMIC_DISPATCH(nearest_offsets)(x, y, row, from, offsets);
}

bool bilinear_row_fused(const WarpAxis& x, const WarpAxis& y, float row, const WarpFrame& from,
                        int64_t n, uint8_t* out) {
  return HWY_DYNAMIC_DISPATCH(blend_row)(x, y, row, from, n, out);
}

}  // namespace composer
#endif

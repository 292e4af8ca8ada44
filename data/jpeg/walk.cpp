#include "data/jpeg/walk.h"

#include <bit>
#include <cstring>

#include "composer/simd.h"
#include "data/jpeg/bmi2_simd.h"

// The walk is compiled twice: BMI2's shifts shorten the chain from code to code.
#ifdef COMPOSER_X86
#define COMPOSER_BMI2 __attribute__((target("bmi,bmi2")))
#endif
#define COMPOSER_INLINE __attribute__((always_inline)) inline

namespace composer {

/// Where in a block the coefficients lie, by their place in the stream; for places that do not
/// exist the last one.
struct NaturalOrder {
  std::array<uint8_t, 256> at{};

  constexpr NaturalOrder() {
    at.fill(63);
    int x = 0, y = 0;
    for (size_t i = 0; i < 64; ++i) {
      at[i] = static_cast<uint8_t>(8 * y + x);
      const bool up = (x + y) % 2 == 0;
      if (up ? x == 7 : y == 7) {
        ++(up ? y : x);
      } else if (up ? y == 0 : x == 0) {
        ++(up ? x : y);
      } else {
        x += up ? 1 : -1, y += up ? -1 : 1;
      }
    }
  }
};
constexpr NaturalOrder kNatural;

/// What of a walker changes from code to code, in registers.
struct Walk {
  uint64_t bits;
  int64_t count;
  const uint8_t* next;
  const uint8_t* end;  ///< of what may be read
  bool bad = false;

  COMPOSER_INLINE explicit Walk(const JpegWalker& w)
      : bits(w.bits_), count(w.count_), next(w.next_), end(w.start_ + w.size_ + 8), bad(w.bad_) {}

  COMPOSER_INLINE void store(JpegWalker& w) const {
    w.bits_ = bits, w.count_ = count, w.next_ = next, w.bad_ = bad || next > end;
  }

  /// At least 56 bits count then.
  COMPOSER_INLINE void refill() {
    uint64_t more;
    std::memcpy(&more, next, 8);
    if constexpr (std::endian::native == std::endian::little) more = __builtin_bswap64(more);
    bits |= more >> count;
    next += (63 - count) >> 3;
    count |= 56;
  }

  COMPOSER_INLINE HuffmanEntry peek(const HuffmanTable& table) const {
    const HuffmanEntry entry = table.fast[bits >> (64 - HuffmanTable::kLookahead)];
    if ((entry & HuffmanTable::kCodeMissing) != 0) [[unlikely]]
      return table.find(bits);
    return entry;
  }

  /// The value behind a code (F.2.2.1 EXTEND) that is not in the table.
  COMPOSER_INLINE int32_t value(HuffmanEntry entry) const {
    const uint64_t ahead = bits << (entry >> 32 & 63);
    const auto size = static_cast<uint32_t>(entry >> 40 & 63);
    const auto raw = static_cast<uint32_t>(ahead >> 1 >> (63 - size));
    const auto negative = static_cast<uint32_t>(~(static_cast<int64_t>(ahead) >> 63));
    return static_cast<int32_t>(raw - (((1u << size) - 1) & negative));
  }

  COMPOSER_INLINE void consume(uint64_t length) {
    bits <<= length & 63;
    count -= static_cast<int64_t>(length & 63);
  }

  COMPOSER_INLINE int32_t difference(const HuffmanTable& table) {
    const HuffmanEntry entry = peek(table);
    const int32_t value_read = value(entry);
    bad |= (entry >> 8 & 0xFF) != 0;
    consume(entry);
    return value_read;
  }

  /// One load of the table: one code or two, 27 bits at most. False at the end of the block.
  template <bool keep>
  COMPOSER_INLINE bool step(const HuffmanTable& table, uint32_t& place, int16_t* block) {
    HuffmanEntry entry = table.fast[bits >> (64 - HuffmanTable::kLookahead)];
    constexpr HuffmanEntry kMissing =
        HuffmanTable::kCodeMissing | (keep ? HuffmanTable::kValueMissing : 0);
    if ((entry & kMissing) != 0) [[unlikely]] {
      if ((entry & HuffmanTable::kCodeMissing) != 0) entry = table.find(bits);
      const auto found = static_cast<uint16_t>(keep ? value(entry) : 0);
      entry = (entry & 0xFFFF3F) | static_cast<uint64_t>(found) << 48;
    }
    const uint32_t first = place + static_cast<uint32_t>(entry >> 8 & 0xFF);
    place = first + static_cast<uint32_t>(entry >> 24 & 0xFF);
    if (first >= 64) {  // a second code would be another block's
      if constexpr (keep) block[kNatural.at[first - 1]] = static_cast<int16_t>(entry >> 48);
      consume(entry >> 16);
      place = first;
      return false;
    }
    if constexpr (keep) {  // without a second code it is overwritten by the first
      block[kNatural.at[place - 1]] = static_cast<int16_t>(entry >> 32);
      block[kNatural.at[first - 1]] = static_cast<int16_t>(entry >> 48);
    }
    consume(entry);
    return place < 64;
  }

  /// The DC coefficient and the first ones after it. False at the end of the block.
  template <bool keep>
  COMPOSER_INLINE bool begin_block(const McuLayout::Block& b, DcPredictors& predictors,
                                   uint32_t& place, int16_t* block) {
    refill();
    predictors[b.component] += static_cast<uint32_t>(difference(*b.dc));
    if constexpr (keep) block[0] = static_cast<int16_t>(predictors[b.component]);
    place = 1;
    return step<keep>(*b.ac, place, block);
  }

  template <bool keep>
  COMPOSER_INLINE bool two_steps(const HuffmanTable& table, uint32_t& place, int16_t* block) {
    refill();
    return step<keep>(table, place, block) && step<keep>(table, place, block);
  }

  COMPOSER_INLINE void end_block(uint32_t place) { bad |= place - 65 < 64; }
};

namespace {

template <bool keep>
COMPOSER_INLINE void walk_one(const McuLayout& layout, int64_t mcus, Walk& w,
                              DcPredictors& predictors, int16_t* block) {
  for (int64_t mcu = 0; mcu < mcus && !w.bad && w.next <= w.end; ++mcu) {
    for (int i = 0; i < layout.blocks; ++i) {
      const McuLayout::Block& b = layout.block[static_cast<size_t>(i)];
      uint32_t place;
      if (w.begin_block<keep>(b, predictors, place, block)) {
        while (w.two_steps<keep>(*b.ac, place, block)) {
        }
      }
      w.end_block(place);
      if constexpr (keep) block += 64;
    }
  }
}

template <bool keep>
COMPOSER_INLINE void walk_two(const McuLayout& layout, int64_t mcus, Walk& a, DcPredictors& pa,
                              int16_t* block_a, Walk& b, DcPredictors& pb, int16_t* block_b) {
  for (int64_t mcu = 0; mcu < mcus && !(a.bad | b.bad); ++mcu) {
    if (a.next > a.end || b.next > b.end) break;
    for (int i = 0; i < layout.blocks; ++i) {
      const McuLayout::Block& kind = layout.block[static_cast<size_t>(i)];
      uint32_t place_a, place_b;
      bool more_a = a.begin_block<keep>(kind, pa, place_a, block_a);
      bool more_b = b.begin_block<keep>(kind, pb, place_b, block_b);
      while (more_a && more_b) {
        more_a = a.two_steps<keep>(*kind.ac, place_a, block_a);
        more_b = b.two_steps<keep>(*kind.ac, place_b, block_b);
      }
      while (more_a) more_a = a.two_steps<keep>(*kind.ac, place_a, block_a);
      while (more_b) more_b = b.two_steps<keep>(*kind.ac, place_b, block_b);
      a.end_block(place_a);
      b.end_block(place_b);
      if constexpr (keep) block_a += 64, block_b += 64;
    }
  }
}

using OneWalk = void (*)(const McuLayout&, int64_t, Walk&, DcPredictors&, int16_t*);
using TwoWalk = void (*)(const McuLayout&, int64_t, Walk&, DcPredictors&, int16_t*, Walk&,
                         DcPredictors&, int16_t*);

template <bool keep>
void plain_one(const McuLayout& layout, int64_t mcus, Walk& w, DcPredictors& p, int16_t* block) {
  Walk local = w;
  walk_one<keep>(layout, mcus, local, p, block);
  w = local;
}

template <bool keep>
void plain_two(const McuLayout& layout, int64_t mcus, Walk& a, DcPredictors& pa, int16_t* block_a,
               Walk& b, DcPredictors& pb, int16_t* block_b) {
  Walk local_a = a, local_b = b;
  walk_two<keep>(layout, mcus, local_a, pa, block_a, local_b, pb, block_b);
  a = local_a, b = local_b;
}

#ifdef COMPOSER_X86
template <bool keep>
COMPOSER_BMI2 void bmi2_one(const McuLayout& layout, int64_t mcus, Walk& w, DcPredictors& p,
                            int16_t* block) {
  Walk local = w;
  walk_one<keep>(layout, mcus, local, p, block);
  w = local;
}

template <bool keep>
COMPOSER_BMI2 void bmi2_two(const McuLayout& layout, int64_t mcus, Walk& a, DcPredictors& pa,
                            int16_t* block_a, Walk& b, DcPredictors& pb, int16_t* block_b) {
  Walk local_a = a, local_b = b;
  walk_two<keep>(layout, mcus, local_a, pa, block_a, local_b, pb, block_b);
  a = local_a, b = local_b;
}
#endif

template <bool keep>
OneWalk one() {
#ifdef COMPOSER_X86
  if (has_bmi2()) return bmi2_one<keep>;
#endif
  return plain_one<keep>;
}

template <bool keep>
TwoWalk two() {
#ifdef COMPOSER_X86
  if (has_bmi2()) return bmi2_two<keep>;
#endif
  return plain_two<keep>;
}

}  // namespace

void JpegWalker::start(const uint8_t* bytes, size_t size, int first_bit,
                       const DcPredictors& predictors) {
  *this = JpegWalker();
  start_ = next_ = bytes;
  size_ = size;
  predictors_ = predictors;
  Walk w(*this);
  w.refill();
  w.bits <<= first_bit;
  w.count -= first_bit;
  w.store(*this);
}

void JpegWalker::skip(const McuLayout& layout, int64_t mcus) {
  Walk w(*this);
  one<false>()(layout, mcus, w, predictors_, nullptr);
  w.store(*this);
}

void JpegWalker::decode(const McuLayout& layout, int64_t mcus, int16_t* blocks) {
  Walk w(*this);
  one<true>()(layout, mcus, w, predictors_, blocks);
  w.store(*this);
}

void JpegWalker::skip(const McuLayout& layout, int64_t mcus, JpegWalker& a, JpegWalker& b) {
  Walk wa(a), wb(b);
  two<false>()(layout, mcus, wa, a.predictors_, nullptr, wb, b.predictors_, nullptr);
  wa.store(a), wb.store(b);
}

void JpegWalker::decode(const McuLayout& layout, int64_t mcus, JpegWalker& a, int16_t* blocks_a,
                        JpegWalker& b, int16_t* blocks_b) {
  Walk wa(a), wb(b);
  two<true>()(layout, mcus, wa, a.predictors_, blocks_a, wb, b.predictors_, blocks_b);
  wa.store(a), wb.store(b);
}

}  // namespace composer

#include "data/jpeg/walk.h"

#include <bit>
#include <cstring>

#include "base/simd.h"
#include "data/jpeg/bits_simd.h"
#include "data/jpeg/natural_order.h"

// The walk is compiled twice: BMI2's shifts shorten the chain from code to code.
#ifdef COMPOSER_X86
#define COMPOSER_BMI2 __attribute__((target("bmi,bmi2")))
#endif
#define COMPOSER_INLINE __attribute__((always_inline)) inline

namespace composer {

/// The state of a walker that changes with each code, in registers.
struct Walk {
  uint64_t bits;
  int64_t count;
  const uint8_t* next;
  const uint8_t* end;  ///< the end of readable codes
  bool bad = false;

  COMPOSER_INLINE explicit Walk(const JpegWalker& w)
      : bits(w.bits_), count(w.count_), next(w.next_), end(w.start_ + w.size_ + 8), bad(w.bad_) {}

  COMPOSER_INLINE void store(JpegWalker& w) const {
    w.bits_ = bits, w.count_ = count, w.next_ = next, w.bad_ = bad || next > end;
  }

  static COMPOSER_INLINE DcPredictors& predictors(JpegWalker& w) { return w.predictors_; }

  /// Makes at least 56 bits valid.
  COMPOSER_INLINE void refill() {
    uint64_t more;
    std::memcpy(&more, next, 8);
    if constexpr (std::endian::native == std::endian::little) more = __builtin_bswap64(more);
    bits |= more >> count;
    next += (63 - count) >> 3;
    count |= 56;
  }

  /// The value behind a single code (F.2.2.1 EXTEND).
  COMPOSER_INLINE int32_t value(HuffmanEntry entry) const {
    const uint64_t ahead = bits << entry.code_bits();
    const uint32_t size = entry.value_bits();
    const auto raw = static_cast<uint32_t>(ahead >> 1 >> (63 - size));
    const auto negative = static_cast<uint32_t>(~(static_cast<int64_t>(ahead) >> 63));
    return static_cast<int32_t>(raw - (((1u << size) - 1) & negative));
  }

  COMPOSER_INLINE void consume(HuffmanEntry entry) {
    bits <<= entry.word & 63;
    count -= entry.bits();
  }

  COMPOSER_INLINE int32_t difference(const HuffmanTable& table) {
    HuffmanEntry entry = table.fast[bits >> (64 - HuffmanTable::kDcLookahead)];
    if (entry.bits() == 0) [[unlikely]]
      entry = table.find(bits, HuffmanTable::kDcLookahead + 1);
    const int32_t value_read = value(entry);
    bad |= entry.code_bits() == 0;
    consume(entry);
    return value_read;
  }

  /// Takes a single code and its value. False at the end of the block.
  template <bool keep>
  COMPOSER_INLINE bool take(HuffmanEntry entry, uint64_t& place, int16_t* block) {
    if constexpr (keep)  // at the end of the block, 0 for a coefficient that is 0
      block[kNatural.at[place + entry.first_move()]] = static_cast<int16_t>(value(entry));
    consume(entry);
    place += entry.moves();
    if (place < 64) return true;
    bad |= (entry.moves() < HuffmanEntry::kEnd && place != 64) || entry.code_bits() == 0;
    return false;
  }

  /// Takes one or two codes, at most 26 bits, with one load of the table. False at the end of the
  /// block.
  template <bool keep>
  COMPOSER_INLINE bool step(const HuffmanTable& table, uint64_t& place, int16_t* block) {
    const HuffmanEntry entry = table.fast[bits >> (64 - HuffmanTable::kLookahead)];
    if (keep && entry.single()) [[unlikely]] {
      const bool found = entry.bits() != 0;
      return take<keep>(found ? entry : table.find(bits, HuffmanTable::kLookahead + 1), place,
                        block);
    }
    const uint64_t before = bits;
    const uint64_t start = place, first = start + entry.first_move();
    place = start + entry.moves();
    if constexpr (keep) {  // without a second code it is overwritten by the first
      block[kNatural.at[place]] = entry.second_value();
      block[kNatural.at[first]] = entry.first_value();
    }
    consume(entry);
    if (place < 64) [[likely]]
      return true;
    const bool missing = !keep && entry.bits() == 0;
    // A second code behind the block's last coefficient is another block's.
    const bool beyond = first >= 64 && entry.moves() != entry.first_move();
    if (missing || beyond) [[unlikely]] {
      bits = before, count += entry.bits(), place = start;
      return take<keep>(table.find(bits, missing ? HuffmanTable::kLookahead + 1 : 1), place, block);
    }
    bad |= entry.moves() < HuffmanEntry::kEnd && place != 64;
    return false;
  }

  /// The DC coefficient and the first ones after it. False at the end of the block.
  template <bool keep>
  COMPOSER_INLINE bool begin_block(const McuLayout::Block& b, DcPredictors& predictors,
                                   uint64_t& place, int16_t* block) {
    refill();
    predictors[b.component] += static_cast<uint32_t>(difference(*b.dc));
    if constexpr (keep) block[0] = static_cast<int16_t>(predictors[b.component]);
    place = 1;
    return step<keep>(*b.ac, place, block);
  }

  template <bool keep>
  COMPOSER_INLINE bool two_steps(const HuffmanTable& table, uint64_t& place, int16_t* block) {
    refill();
    return step<keep>(table, place, block) && step<keep>(table, place, block);
  }
};

namespace {

template <bool keep>
COMPOSER_INLINE void walk_one(const McuLayout& layout, int64_t mcus, JpegWalker& walker,
                              int16_t* block) {
  Walk w(walker);
  for (int64_t mcu = 0; mcu < mcus && !w.bad && w.next <= w.end; ++mcu) {
    for (int i = 0; i < layout.blocks; ++i) {
      const McuLayout::Block& b = layout.block[static_cast<size_t>(i)];
      uint64_t place;
      if (w.begin_block<keep>(b, Walk::predictors(walker), place, block)) {
        while (w.two_steps<keep>(*b.ac, place, block)) {
        }
      }
      if constexpr (keep) block += 64;
    }
  }
  w.store(walker);
}

template <bool keep>
COMPOSER_INLINE void walk_two(const McuLayout& layout, int64_t mcus, JpegWalker& first,
                              int16_t* block_a, JpegWalker& second, int16_t* block_b) {
  Walk a(first), b(second);
  for (int64_t mcu = 0; mcu < mcus && !(a.bad | b.bad); ++mcu) {
    if (a.next > a.end || b.next > b.end) break;
    for (int i = 0; i < layout.blocks; ++i) {
      const McuLayout::Block& kind = layout.block[static_cast<size_t>(i)];
      uint64_t place_a, place_b;
      bool more_a = a.begin_block<keep>(kind, Walk::predictors(first), place_a, block_a);
      bool more_b = b.begin_block<keep>(kind, Walk::predictors(second), place_b, block_b);
      while (more_a && more_b) {
        more_a = a.two_steps<keep>(*kind.ac, place_a, block_a);
        more_b = b.two_steps<keep>(*kind.ac, place_b, block_b);
      }
      while (more_a) more_a = a.two_steps<keep>(*kind.ac, place_a, block_a);
      while (more_b) more_b = b.two_steps<keep>(*kind.ac, place_b, block_b);
      if constexpr (keep) block_a += 64, block_b += 64;
    }
  }
  a.store(first), b.store(second);
}

using OneWalk = void (*)(const McuLayout&, int64_t, JpegWalker&, int16_t*);
using TwoWalk = void (*)(const McuLayout&, int64_t, JpegWalker&, int16_t*, JpegWalker&, int16_t*);

template <bool keep>
void plain_one(const McuLayout& layout, int64_t mcus, JpegWalker& w, int16_t* block) {
  walk_one<keep>(layout, mcus, w, block);
}

template <bool keep>
void plain_two(const McuLayout& layout, int64_t mcus, JpegWalker& a, int16_t* block_a,
               JpegWalker& b, int16_t* block_b) {
  walk_two<keep>(layout, mcus, a, block_a, b, block_b);
}

#ifdef COMPOSER_X86
template <bool keep>
COMPOSER_BMI2 void bmi2_one(const McuLayout& layout, int64_t mcus, JpegWalker& w, int16_t* block) {
  walk_one<keep>(layout, mcus, w, block);
}

template <bool keep>
COMPOSER_BMI2 void bmi2_two(const McuLayout& layout, int64_t mcus, JpegWalker& a, int16_t* block_a,
                            JpegWalker& b, int16_t* block_b) {
  walk_two<keep>(layout, mcus, a, block_a, b, block_b);
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
  one<false>()(layout, mcus, *this, nullptr);
}

void JpegWalker::decode(const McuLayout& layout, int64_t mcus, int16_t* blocks) {
  one<true>()(layout, mcus, *this, blocks);
}

void JpegWalker::skip(const McuLayout& layout, int64_t mcus, JpegWalker& a, JpegWalker& b) {
  two<false>()(layout, mcus, a, nullptr, b, nullptr);
}

void JpegWalker::decode(const McuLayout& layout, int64_t mcus, JpegWalker& a, int16_t* blocks_a,
                        JpegWalker& b, int16_t* blocks_b) {
  two<true>()(layout, mcus, a, blocks_a, b, blocks_b);
}

}  // namespace composer

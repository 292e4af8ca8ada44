// Huffman codes of a JPEG stream, and the tables that decode one in a single load.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace composer {

/// The meaning of the next bits, in one word: the tables of a stream fit the nearest cache
/// together. Bits 0..5: the number of bits used; 7..11: the first code's step of the coefficient's
/// position; 12..18: the step of both codes, kEnd for the end of a block; 19..24: the value of a
/// second code, if any; 25..31: the first value. With kSingle, bits 19..24 are the code's length, 0
/// for no code, and 25..31 the length of its value.
struct HuffmanEntry {
  static constexpr uint32_t kSingle = 0x40;
  static constexpr uint32_t kEnd = 64;
  /// Stands for a longer code: uses no bits, and moves beyond all blocks.
  static constexpr uint32_t kCodeMissing = kSingle | 127 << 12 | 1 << 7;

  uint32_t word;

  uint32_t bits() const { return word & 63; }
  bool single() const { return (word & kSingle) != 0; }
  uint32_t first_move() const { return word >> 7 & 31; }
  uint32_t moves() const { return word >> 12 & 127; }
  int16_t first_value() const { return static_cast<int16_t>(static_cast<int32_t>(word) >> 25); }
  int16_t second_value() const {
    return static_cast<int16_t>(static_cast<int32_t>(word << 7) >> 26);
  }
  uint32_t code_bits() const { return word >> 19 & 63; }
  uint32_t value_bits() const { return word >> 25; }
};

struct HuffmanTable {
  /// An AC table is indexed by the next kLookahead bits; a DC table, whose entries are all single,
  /// by the next kDcLookahead.
  static constexpr int kLookahead = 11, kDcLookahead = 9;

  std::array<HuffmanEntry, 1 << kLookahead> fast;
  /// By length: the first 16-bit number above the codes of this length, and the difference of a
  /// code's index in `slow` and the code.
  std::array<uint32_t, 17> limit;
  std::array<int32_t, 17> offset;
  std::array<HuffmanEntry, 256> slow;

  /// table: the counts of the 16 lengths, then the symbols. False for codes that no 8-bit image
  /// needs.
  bool make(std::span<const uint8_t> table, bool ac);

  /// The single entry of a code with at least `least` bits. bits: the next bits, from the top.
  HuffmanEntry find(uint64_t bits, int least) const;

 private:
  void put_code(uint32_t code, HuffmanEntry e, int lookahead);
  void put_values(uint32_t code, HuffmanEntry e);
  void add_second_codes();
};

/// The four tables of nearly all streams are made once for all threads; others are kept until a
/// stream has different ones.
class HuffmanTables {
 public:
  /// Null for an invalid table. Valid until the next call for the same slot (0..3).
  const HuffmanTable* find(bool ac, size_t slot, std::span<const uint8_t> table);

 private:
  struct Own {
    std::vector<uint8_t> source;
    std::unique_ptr<HuffmanTable> table;
  };
  std::array<std::array<Own, 4>, 2> own_;  ///< DC, AC
};

}  // namespace composer

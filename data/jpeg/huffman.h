// Huffman codes of a JPEG stream, and the tables that decode one in a single load.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace composer {

/// What the next bits say; small, so that the tables of a stream fit the nearest cache together.
/// Bits 0..5: their number; 7..11: by how much the first code moves the coefficient's position on;
/// 12..18: by how much both codes do, the end of a block by kEnd. Then 25..31: the first value;
/// 19..24: that of a second code, where there is one. With kSingle, instead: bits of the code's
/// value; bits of the code itself, 0 where no code begins like this.
struct HuffmanEntry {
  static constexpr uint32_t kSingle = 0x40;
  static constexpr uint32_t kEnd = 64;
  /// A longer code. Of no bits, and moves beyond all blocks.
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
  /// By length: the first 16-bit number that is beyond the codes of this length, and what to add to
  /// a code for its place in `slow`.
  std::array<uint32_t, 17> limit;
  std::array<int32_t, 17> offset;
  std::array<HuffmanEntry, 256> slow;

  /// table: counts of the 16 lengths, then symbols. False for codes that no 8-bit image needs.
  bool make(std::span<const uint8_t> table, bool ac);

  /// The single entry of a code of at least so many bits. bits: the next ones, from the top.
  HuffmanEntry find(uint64_t bits, int least) const;

 private:
  void put_code(uint32_t code, HuffmanEntry e, int lookahead);
  void put_values(uint32_t code, HuffmanEntry e);
  void add_second_codes();
};

/// The four tables that nearly all streams use are made once for all threads; others are kept until
/// another stream's differ.
class HuffmanTables {
 public:
  /// Nothing when the table is none. Valid until the next call for the same slot (0..3).
  const HuffmanTable* find(bool ac, size_t slot, std::span<const uint8_t> table);

 private:
  struct Own {
    std::vector<uint8_t> source;
    std::unique_ptr<HuffmanTable> table;
  };
  std::array<std::array<Own, 4>, 2> own_;  ///< of DC, of AC
};

}  // namespace composer

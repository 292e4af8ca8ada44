// Huffman codes of a JPEG stream, and the tables that decode one in a single load.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace composer {

/// What the next bits say. Bits 0..5: their number; 8..15: by how much the coefficient's position
/// moves on; 16..23: bits of the first code and its value. Then, with kValueMissing, 32..39: bits
/// of the code; 40..47: bits of its value. Otherwise 48..63: the value; 24..31: how far another
/// code moves on, 0 without one; 32..47: that one's value.
using HuffmanEntry = uint64_t;

struct HuffmanTable {
  static constexpr int kLookahead = 11;
  /// The moves of an end of block, of a code that does not exist, and more than a block has.
  static constexpr uint32_t kEndMove = 128, kBadMove = 64;

  static constexpr HuffmanEntry kCodeMissing = 0x40, kValueMissing = 0x80;

  /// By the next kLookahead bits. DC tables hold no values. kCodeMissing: a longer code.
  std::array<HuffmanEntry, 1 << kLookahead> fast;
  /// For lengths above kLookahead: the first 16-bit number that is beyond the codes of this length,
  /// and what to add to a code for its place in `slow`.
  std::array<uint32_t, 17> limit;
  std::array<int32_t, 17> offset;
  std::array<HuffmanEntry, 256> slow;

  /// table: counts of the 16 lengths, then symbols. False for codes that no 8-bit image needs.
  bool make_dc(std::span<const uint8_t> table) { return make(table, false); }
  bool make_ac(std::span<const uint8_t> table) { return make(table, true); }

  /// The entry of a code longer than kLookahead, without its value. bits: the next ones, from the
  /// top.
  HuffmanEntry find(uint64_t bits) const;

 private:
  bool make(std::span<const uint8_t> table, bool ac);
  void put(size_t first, HuffmanEntry e, bool with_values);
  void add_second_codes();
};

/// The four tables that nearly all streams use are made once for all threads; others are kept until
/// another stream's differ.
class HuffmanTables {
 public:
  /// Nothing when the table is none. Valid until the next call for the same slot (0..3).
  const HuffmanTable* dc(size_t slot, std::span<const uint8_t> table);
  const HuffmanTable* ac(size_t slot, std::span<const uint8_t> table);

 private:
  struct Own {
    std::vector<uint8_t> source;
    std::unique_ptr<HuffmanTable> table;
  };
  static const HuffmanTable* own(Own& slot, std::span<const uint8_t> table, bool ac);

  std::array<Own, 4> dc_, ac_;
};

}  // namespace composer

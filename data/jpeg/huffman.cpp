#include "data/jpeg/huffman.h"

#include <algorithm>

namespace composer {
namespace {

// Annex K of the standard (ITU-T T.81): counts of the lengths, then symbols.
constexpr uint8_t kDcLuma[] = {0, 1, 5, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0,  0,
                               0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
constexpr uint8_t kDcChroma[] = {0, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0,  0,
                                 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
constexpr uint8_t kAcLuma[] = {
    0,   2,   1,   3,   3,   2,   4,   3,   5,   5,   4,   4,   0,   0,   1,   125, 1,   2,
    3,   0,   4,   17,  5,   18,  33,  49,  65,  6,   19,  81,  97,  7,   34,  113, 20,  50,
    129, 145, 161, 8,   35,  66,  177, 193, 21,  82,  209, 240, 36,  51,  98,  114, 130, 9,
    10,  22,  23,  24,  25,  26,  37,  38,  39,  40,  41,  42,  52,  53,  54,  55,  56,  57,
    58,  67,  68,  69,  70,  71,  72,  73,  74,  83,  84,  85,  86,  87,  88,  89,  90,  99,
    100, 101, 102, 103, 104, 105, 106, 115, 116, 117, 118, 119, 120, 121, 122, 131, 132, 133,
    134, 135, 136, 137, 138, 146, 147, 148, 149, 150, 151, 152, 153, 154, 162, 163, 164, 165,
    166, 167, 168, 169, 170, 178, 179, 180, 181, 182, 183, 184, 185, 186, 194, 195, 196, 197,
    198, 199, 200, 201, 202, 210, 211, 212, 213, 214, 215, 216, 217, 218, 225, 226, 227, 228,
    229, 230, 231, 232, 233, 234, 241, 242, 243, 244, 245, 246, 247, 248, 249, 250};
constexpr uint8_t kAcChroma[] = {
    0,   2,   1,   2,   4,   4,   3,   4,   7,   5,   4,   4,   0,   1,   2,   119, 0,   1,
    2,   3,   17,  4,   5,   33,  49,  6,   18,  65,  81,  7,   97,  113, 19,  34,  50,  129,
    8,   20,  66,  145, 161, 177, 193, 9,   35,  51,  82,  240, 21,  98,  114, 209, 10,  22,
    36,  52,  225, 37,  241, 23,  24,  25,  26,  38,  39,  40,  41,  42,  53,  54,  55,  56,
    57,  58,  67,  68,  69,  70,  71,  72,  73,  74,  83,  84,  85,  86,  87,  88,  89,  90,
    99,  100, 101, 102, 103, 104, 105, 106, 115, 116, 117, 118, 119, 120, 121, 122, 130, 131,
    132, 133, 134, 135, 136, 137, 138, 146, 147, 148, 149, 150, 151, 152, 153, 154, 162, 163,
    164, 165, 166, 167, 168, 169, 170, 178, 179, 180, 181, 182, 183, 184, 185, 186, 194, 195,
    196, 197, 198, 199, 200, 201, 202, 210, 211, 212, 213, 214, 215, 216, 217, 218, 226, 227,
    228, 229, 230, 231, 232, 233, 234, 242, 243, 244, 245, 246, 247, 248, 249, 250};

HuffmanEntry entry(uint8_t symbol, int length, bool ac) {
  const uint32_t size = ac ? symbol & 15u : symbol;
  const auto code = static_cast<uint32_t>(length);
  const bool end = ac && size == 0 && symbol != 0xF0;
  const uint32_t first = !ac ? 0 : end ? 1 : (symbol >> 4) + 1u;
  const uint32_t moves = end ? first + HuffmanEntry::kEnd : first;
  return {(code + size) | HuffmanEntry::kSingle | first << 7 | moves << 12 | code << 19 |
          size << 25};
}

/// Lengths of the values that fit an entry.
constexpr uint32_t kMostFirstBits = 6, kMostSecondBits = 5;

struct Standard {
  std::array<std::array<std::span<const uint8_t>, 2>, 2> sources{
      // rows: DC, AC; columns: luma, chroma
      {{kDcLuma, kDcChroma}, {kAcLuma, kAcChroma}}};
  std::array<std::array<HuffmanTable, 2>, 2> tables;

  Standard() {
    for (const size_t ac : {0, 1})
      for (const size_t chroma : {0, 1}) tables[ac][chroma].make(sources[ac][chroma], ac == 1);
  }
};

}  // namespace

bool HuffmanTable::make(std::span<const uint8_t> table, bool ac) {
  const auto symbols = table.subspan(16);
  const int lookahead = ac ? kLookahead : kDcLookahead;
  fast.fill({HuffmanEntry::kCodeMissing}), limit.fill(0), offset.fill(0), slow.fill({0});
  uint32_t code = 0;
  size_t next = 0;
  for (int length = 1; length <= 16; ++length, code <<= 1) {
    const auto l = static_cast<size_t>(length);
    const size_t count = table[l - 1];
    if (count != 0 && code + count >= (1u << length)) return false;  // all ones is no code
    offset[l] = static_cast<int32_t>(next) - static_cast<int32_t>(code);
    for (size_t i = 0; i < count; ++i, ++next, ++code) {
      const uint8_t symbol = symbols[next];
      if (ac ? (symbol & 15) > 10 : symbol > 11) return false;
      const HuffmanEntry e = slow[next] = entry(symbol, length, ac);
      if (length > lookahead) continue;
      const bool known = ac && e.bits() <= kLookahead && e.value_bits() <= kMostFirstBits;
      known ? put_values(code, e) : put_code(code, e, lookahead);
    }
    limit[l] = code << (16 - length);
  }
  if (ac) add_second_codes();
  return next != 0;
}

/// Fills the entries that begin with a code.
void HuffmanTable::put_code(uint32_t code, HuffmanEntry e, int lookahead) {
  const int rest = lookahead - static_cast<int>(e.code_bits());
  std::fill_n(fast.data() + (size_t{code} << rest), size_t{1} << rest, e);
}

/// Fills the entries that begin with a code and one of its values.
void HuffmanTable::put_values(uint32_t code, HuffmanEntry e) {
  const size_t rest = kLookahead - e.bits(), repeated = size_t{1} << rest;
  const int32_t values = 1 << e.value_bits();
  HuffmanEntry* to = fast.data() + (size_t{code} << (rest + e.value_bits()));
  for (int32_t raw = 0; raw < values; ++raw, to += repeated) {  // F.2.2.1 EXTEND
    const int32_t value = 2 * raw < values ? raw - values + 1 : raw;
    const uint32_t word = e.bits() | (e.word & 0x7FF80) | static_cast<uint32_t>(value) << 25;
    std::fill_n(to, repeated, HuffmanEntry{word});
  }
}

/// Adds a second code and its value to the entries whose bits hold both.
void HuffmanTable::add_second_codes() {
  constexpr size_t kEntries = size_t{1} << kLookahead;
  // Indexed by the bits that the first code uses, and by the bits behind it.
  std::array<std::array<uint32_t, kEntries / 2>, kLookahead> second;
  for (size_t used = 1; used < kLookahead; ++used) {
    for (size_t rest = 0; rest < kEntries >> used; ++rest) {
      const HuffmanEntry e = fast[rest << used];
      constexpr int kMost = 1 << kMostSecondBits;
      const bool known = !e.single() && e.bits() + used <= kLookahead && e.first_value() > -kMost &&
                         e.first_value() < kMost;
      const auto value = static_cast<uint32_t>(e.first_value()) & 63;
      second[used][rest] = known ? e.bits() | e.moves() << 12 | value << 19 : 0;
    }
  }
  for (size_t i = 0; i < kEntries;) {
    const HuffmanEntry e = fast[i];
    const size_t used = e.bits();
    const bool known = !e.single() && used < kLookahead;
    const size_t same = known ? kEntries >> used : 1;
    if (known && e.moves() < HuffmanEntry::kEnd)
      for (size_t rest = 0; rest < same; ++rest) fast[i + rest].word += second[used][rest];
    i += same;
  }
}

HuffmanEntry HuffmanTable::find(uint64_t bits, int least) const {
  const auto code = static_cast<uint32_t>(bits >> 48);
  for (auto length = static_cast<size_t>(least); length <= 16; ++length) {
    if (code >= limit[length]) continue;
    const auto place = static_cast<int32_t>(code >> (16 - length)) + offset[length];
    return slow[static_cast<size_t>(place) & 255];
  }
  return {1 | HuffmanEntry::kSingle | 1 << 7 | (1 + HuffmanEntry::kEnd) << 12};
}

const HuffmanTable* HuffmanTables::find(bool ac, size_t slot, std::span<const uint8_t> table) {
  static const Standard standard;
  const size_t kind = ac ? 1 : 0;
  for (const size_t chroma : {0, 1})
    if (std::ranges::equal(table, standard.sources[kind][chroma]))
      return &standard.tables[kind][chroma];
  Own& own = own_[kind][slot];
  if (!own.source.empty() && std::ranges::equal(table, own.source)) return own.table.get();
  if (!own.table) own.table = std::make_unique<HuffmanTable>();
  own.source.clear();
  if (!own.table->make(table, ac)) return nullptr;
  own.source.assign(table.begin(), table.end());
  return own.table.get();
}

}  // namespace composer

#include "data/beton/regions.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "data/beton/fields.h"

namespace composer {

BetonRegions::BetonRegions(std::span<const uint8_t> table, unsigned page_shift) : table_(table) {
  const uint64_t entries = table.size() / kBetonEntryBytes;
  uint64_t before = 0;
  for (uint64_t i = 0; i < entries; ++i) {
    const uint64_t begin = begin_of(i);
    const bool same_page = (begin ^ before) >> page_shift == 0;
    const bool ascends = begin > before || (begin == before && i > 0 && size_of(i - 1) == 0);
    const bool goes_on = i > 0 && same_page && ascends;
    if (goes_on)
      pieces_.back().last = i;
    else
      pieces_.push_back({i, i});
    before = begin;
  }
  sort_pieces();
  for (size_t i = 1; i < pieces_.size(); ++i) {
    if (begin_of(pieces_[i - 1].last) <= begin_of(pieces_[i].first)) continue;
    pieces_.clear();
    for (uint64_t entry = 0; entry < entries; ++entry) pieces_.push_back({entry, entry});
    sort_pieces();
    break;
  }
  pieces_.shrink_to_fit();
}

std::optional<uint64_t> BetonRegions::size_at(uint64_t begin) const {
  const auto after = std::upper_bound(
      pieces_.begin(), pieces_.end(), begin,
      [&](uint64_t wanted, const Piece& piece) { return wanted < begin_of(piece.first); });
  if (after == pieces_.begin()) return std::nullopt;
  uint64_t low = std::prev(after)->first, high = std::prev(after)->last;
  while (low < high) {
    const uint64_t middle = high - (high - low) / 2;
    if (begin_of(middle) <= begin)
      low = middle;
    else
      high = middle - 1;
  }
  if (begin_of(low) != begin) return std::nullopt;
  return size_of(low);
}

uint64_t BetonRegions::number(uint64_t entry, uint64_t offset) const {
  uint64_t value;
  std::memcpy(&value, table_.data() + entry * kBetonEntryBytes + offset, sizeof value);
  return value;
}

void BetonRegions::sort_pieces() {
  const auto key = [&](const Piece& piece) {
    return std::tuple(begin_of(piece.first), begin_of(piece.last), size_of(piece.last));
  };
  std::sort(pieces_.begin(), pieces_.end(),
            [&](const Piece& a, const Piece& b) { return key(a) < key(b); });
}

}  // namespace composer

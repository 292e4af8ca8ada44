// Sizes of the regions of a .beton file, by where they begin: only the allocation table tells them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace composer {

/// The table stays where it is. FFCV's writers fill one page after the other, so a page's entries
/// stand together and ascend: what is kept is one piece of the table for each page. A table in any
/// other order costs 24 bytes an entry and a sort.
class BetonRegions {
 public:
  /// table: entries of 24 bytes (sample, begin, size); must outlive this. page_shift: log2 of the
  /// page size.
  BetonRegions(std::span<const uint8_t> table, unsigned page_shift);

  /// Size of the region that begins at this offset of the file; of several, the largest one's:
  /// empty regions share their place with the next. Nothing when there is none.
  std::optional<uint64_t> size_at(uint64_t begin) const;

 private:
  struct Piece {  // of the table: entries first..last, their begins ascend
    uint64_t first, last;
  };

  uint64_t number(uint64_t entry, uint64_t offset) const;
  uint64_t begin_of(uint64_t entry) const { return number(entry, 8); }
  uint64_t size_of(uint64_t entry) const { return number(entry, 16); }
  void sort_pieces();

  std::span<const uint8_t> table_;
  std::vector<Piece> pieces_;
};

}  // namespace composer

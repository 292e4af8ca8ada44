// Faults of mapped files. A page of a mapping that cannot be read, because another program cut the
// file off or the disk or network failed, raises SIGBUS, which would end the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace composer {

/// Watches one mapping: from the construction on, such a page reads as zeros and is noted here.
/// Other faults end the process as before, or go to the handler that was there before the first of
/// these. Functions may be called by several threads at once.
class LostPages {
 public:
  /// Of a private mapping for reading of the open file, from its beginning. The mapping and `file`
  /// must outlast this.
  LostPages(std::span<const uint8_t> mapping, int file);
  ~LostPages();
  LostPages(const LostPages&) = delete;
  LostPages& operator=(const LostPages&) = delete;

  /// Whether a page that holds bytes of this part has been lost. To be asked after the bytes were
  /// read.
  bool in(std::span<const uint8_t> part) const;

 private:
  struct Range;
  struct Ranges;

  Range* const range_;
};

}  // namespace composer

// The index of a JPEG stream as bytes: where each row of MCUs begins. 16 bytes, then 8 for each row
// and for the end, all little-endian: 28 bits of position in the stuffed codes, three predictors of
// 12 bits.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "data/jpeg/scan.h"
#include "data/jpeg/walk.h"

namespace composer {

struct JpegRowStart {
  uint64_t bit = 0;  ///< of JpegScan::codes
  DcPredictors predictors{};
};

/// What the index of a stream begins with, or another table of one: its kind, and numbers that tell
/// the stream from others.
std::array<uint8_t, 16> jpeg_table_head(char kind, const JpegScan& scan, size_t stream_bytes);

class JpegIndexWriter {
 public:
  JpegIndexWriter(const JpegScan& scan, size_t stream_bytes, std::vector<uint8_t>& out);

  /// False when it does not fit the format: the codes are longer than 32 MB, or the predictors lie
  /// outside of what 8-bit images have.
  bool add(const JpegRowStart& row);

 private:
  std::vector<uint8_t>& out_;
};

/// An index as recorded, or as somebody damaged it.
class JpegIndexReader {
 public:
  /// Nothing when it is not of this stream, as far as its length and numbers tell.
  static std::optional<JpegIndexReader> open(const JpegScan& scan, size_t stream_bytes,
                                             std::span<const uint8_t> index);

  /// row: 0 .. mcu_rows, the last being the end. Its position may lie anywhere.
  JpegRowStart row(int64_t row) const;

 private:
  std::span<const uint8_t> rows_;
};

}  // namespace composer

// The index of a JPEG stream as bytes, little-endian: a header of 16 bytes, then 8 bytes for each
// row of MCUs and for the end: 28 bits for the position in the stuffed codes, three predictors of
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
  uint64_t bit = 0;  ///< position in JpegScan::codes
  DcPredictors predictors{};
};

/// The header of a stream's index or other table: its kind, and numbers that distinguish streams.
std::array<uint8_t, 16> jpeg_table_head(char kind, const JpegScan& scan, size_t stream_bytes);

class JpegIndexWriter {
 public:
  JpegIndexWriter(const JpegScan& scan, size_t stream_bytes, std::vector<uint8_t>& out);

  /// False when the row does not fit the format: the codes are longer than 32 MB, or a predictor is
  /// beyond the range of 8-bit images.
  bool add(const JpegRowStart& row);

 private:
  std::vector<uint8_t>& out_;
};

/// Reads an index, which may be damaged.
class JpegIndexReader {
 public:
  /// Nothing for an index of another stream, as far as its length and header tell.
  static std::optional<JpegIndexReader> open(const JpegScan& scan, size_t stream_bytes,
                                             std::span<const uint8_t> index);

  /// row: 0 .. mcu_rows, where mcu_rows is the end. Its position may lie anywhere.
  JpegRowStart row(int64_t row) const;

 private:
  std::span<const uint8_t> rows_;
};

}  // namespace composer

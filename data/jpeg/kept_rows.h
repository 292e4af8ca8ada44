// The cached coefficients of a JPEG stream in the code of data/jpeg/coefficients_simd.h, one row of
// MCUs after the other. Their table is little-endian: a header of 16 bytes as in the stream's
// index, then for each row its end (4 bytes) and its checksum (8).
#pragma once

#include <cstdint>
#include <vector>

#include "data/jpeg/codec.h"
#include "data/jpeg/decoder.h"
#include "data/jpeg/rows.h"
#include "data/jpeg/scan.h"

namespace composer {

/// Packs the rows of a whole image, from the top.
class KeptWriter {
 public:
  /// to: gets table and rows; finish() sets `made`.
  KeptWriter(const JpegScan& scan, size_t stream_bytes, JpegKept& to);

  /// blocks: a row of MCUs. Without enough memory for it nothing is made.
  void add(const int16_t* blocks) noexcept;
  void finish();

 private:
  const size_t row_blocks_;
  JpegKept& to_;
  size_t bytes_ = 0;
  bool failed_ = false;
};

/// Unpacks a part of the cached rows. Keeps its memory from image to image.
class KeptRows final : public JpegCoefficients {
 public:
  /// False when the rows cannot be read, or are another stream's, as far as length and header tell.
  bool start(const JpegScan& scan, size_t stream_bytes, const JpegKept& kept, const JpegMcus& mcus);
  /// nullptr also for a damaged row.
  int16_t* next_row() noexcept override;

 private:
  const uint8_t* row_ = nullptr;  ///< the row in the table
  const uint8_t* end_ = nullptr;
  size_t at_ = 0;  ///< the row's offset
  size_t begin_ = 0;
  size_t row_blocks_ = 0, first_ = 0, count_ = 0;
  std::vector<uint8_t> bytes_;
  std::vector<int16_t> blocks_;
};

}  // namespace composer

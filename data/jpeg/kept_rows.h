// The coefficients of a JPEG stream, kept outside of it in the code of
// data/jpeg/coefficients_simd.h, a row of MCUs after the other. Their table, little-endian: 16
// bytes as of the stream's index; then 12 for each row, where it ends (4) and its checksum (8).
#pragma once

#include <cstdint>
#include <vector>

#include "data/jpeg/codec.h"
#include "data/jpeg/decoder.h"
#include "data/jpeg/rows.h"
#include "data/jpeg/scan.h"

namespace composer {

/// Keeps the rows of a whole image, from the top.
class KeptWriter {
 public:
  /// to: gets table and rows; `made` when finish() is called.
  KeptWriter(const JpegScan& scan, size_t stream_bytes, JpegKept& to);

  /// blocks: of a row of MCUs. Where there is no memory for it, nothing is kept.
  void add(const int16_t* blocks) noexcept;
  void finish();

 private:
  const size_t row_blocks_;
  JpegKept& to_;
  size_t bytes_ = 0;
  bool failed_ = false;
};

/// A part of what was kept. Keeps its memory from image to image.
class KeptRows final : public JpegCoefficients {
 public:
  /// False when what is kept is not of this stream, as far as its length and numbers tell, or
  /// cannot be read.
  bool start(const JpegScan& scan, size_t stream_bytes, const JpegKept& kept, const JpegMcus& mcus);
  /// nullptr also for a row that is damaged.
  int16_t* next_row() noexcept override;

 private:
  const uint8_t* row_ = nullptr;  ///< in the table
  const uint8_t* end_ = nullptr;
  size_t at_ = 0;  ///< where the row begins
  size_t begin_ = 0;
  size_t row_blocks_ = 0, first_ = 0, count_ = 0;
  std::vector<uint8_t> bytes_;
  std::vector<int16_t> blocks_;
};

}  // namespace composer

// The coefficients of a part of a JPEG scan, one row of MCUs after the other: found by an index, or
// by walking along the scan.
#pragma once

#include <cstdint>
#include <vector>

#include "data/jpeg/codec.h"
#include "data/jpeg/index.h"
#include "data/jpeg/scan.h"
#include "data/jpeg/walk.h"

namespace composer {

/// The MCUs of rows top..bottom - 1 and columns left..right - 1.
struct JpegMcus {
  int64_t top = 0, left = 0, bottom = 0, right = 0;
};

/// Makes the layout for walking along a scan. tables: hold the layout's tables. False for tables
/// that no image needs.
bool lay_out(const JpegScan& scan, HuffmanTables& tables, McuLayout& layout);

/// Decodes two rows at a time. Keeps its memory from image to image.
class IndexedRows final : public JpegCoefficients {
 public:
  void start(const JpegScan& scan, const McuLayout& layout, const JpegIndexReader& index,
             const JpegMcus& mcus);
  int16_t* next_row() noexcept override;

 private:
  bool seek(int64_t row, int lane);

  const JpegScan* scan_ = nullptr;
  const McuLayout* layout_ = nullptr;
  const JpegIndexReader* index_ = nullptr;
  JpegMcus mcus_;
  int64_t row_ = 0;
  size_t row_blocks_ = 0;  ///< coefficients of a row
  bool second_ready_ = false;
  std::array<JpegWalker, 2> walkers_;
  std::array<std::vector<uint8_t>, 2> bits_;  ///< codes without stuffing
  std::vector<int16_t> blocks_;
};

class KeptWriter;

/// Walks along the whole scan and decodes the coefficients of a part.
class WalkedRows final : public JpegCoefficients {
 public:
  /// writer: if not null, gets the start of each row. keeper: if not null, gets each row.
  void start(const JpegScan& scan, const McuLayout& layout, const JpegMcus& mcus,
             JpegIndexWriter* writer, KeptWriter* keeper = nullptr);
  int16_t* next_row() noexcept override;
  /// Walks to the end of the scan after the wanted rows. False when codes are damaged or missing
  /// anywhere in the scan.
  bool finish();
  /// Whether the writer got the whole index.
  bool recorded() const { return writer_ != nullptr; }

 private:
  void begin_row();
  void pass_row();
  void keep_row();
  size_t coefficients(int64_t mcus) const;
  uint64_t stuffed_bit();

  const JpegScan* scan_ = nullptr;
  const McuLayout* layout_ = nullptr;
  JpegIndexWriter* writer_ = nullptr;
  KeptWriter* keeper_ = nullptr;
  JpegMcus mcus_;
  int64_t row_ = 0;
  JpegWalker walker_;
  std::vector<uint8_t> bits_;
  std::vector<uint32_t> removed_;  ///< see unstuff()
  size_t removed_before_ = 0;
  std::vector<int16_t> blocks_;  ///< blocks of a row's wanted part; with a keeper, of the whole row
};

}  // namespace composer

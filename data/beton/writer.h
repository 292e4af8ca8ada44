// Writes .beton files, FFCV's format (version 2), with the fields image (RGBImage) and label (Int),
// or image and a number (Float) for each value.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/files/atomic_file.h"
#include "data/pixels/image.h"

namespace composer {

/// An image's bytes in the file.
struct BetonRegion {
  uint64_t begin = 0;
  uint64_t bytes = 0;
};

/// The file's bytes depend on the rows and their order alone. Regions are packed into pages in the
/// order of the rows. finish() flushes the file to the disk and gives it its name (AtomicFile).
/// Memory: 48 bytes a row, and 4 a value.
class BetonWriter {
 public:
  /// most_rows: the largest number of rows. page_size: a power of two from 2 MiB to 2 GiB, or 0: 8
  /// MiB, and larger once an image needs it. values: names of the fields that replace the label;
  /// empty: the label. Throws UserError for another page size, for names that FFCV's format cannot
  /// hold, and for a folder that is missing or not writable.
  BetonWriter(const std::filesystem::path& path, int64_t most_rows, uint64_t page_size = 0,
              std::vector<std::string> values = {});

  /// The reason why an image of this size cannot be added; empty when it can.
  std::string refusal(ImageSize size, uint64_t bytes) const;
  /// jpeg: whether `bytes` are a JPEG stream, or else RGB pixels. values: one for each name. Throws
  /// RunError with the reason when the image is refused or the disk is full.
  BetonRegion add(bool jpeg, ImageSize size, std::span<const uint8_t> bytes, int64_t label,
                  std::span<const float> values = {});
  /// Adds a row with the image and target of an earlier row; the bytes are not stored again.
  void repeat(int64_t row);

  int64_t rows() const { return static_cast<int64_t>(rows_.size()); }
  /// Finishes the file and returns its length. Throws RunError when not all could be written.
  uint64_t finish();

 private:
  struct Row {
    BetonRegion region;
    int64_t label;
    uint16_t width, height;
    bool jpeg;
  };

  uint64_t row_bytes() const;
  uint64_t data_begin() const;
  uint64_t place(uint64_t bytes);
  std::vector<uint8_t> head(uint64_t table) const;
  std::vector<uint8_t> regions() const;

  const std::vector<std::string> value_names_;
  int64_t most_rows_;
  bool page_grows_;
  uint64_t page_size_;
  std::unique_ptr<AtomicFile> file_;
  uint64_t position_;  // where the next region may begin
  std::vector<Row> rows_;
  std::vector<float> values_;  // the rows' values, one row after the other
};

}  // namespace composer

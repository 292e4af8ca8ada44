// Image files in memory, and the base class of a user's own sources of image files.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/samples/source.h"

namespace composer {

/// The image file with these bytes: a JPEG stream refers to them, and is decoded by read_part();
/// other formats are decoded into `decoded`. Throws RunError with the reason.
StoredImage stored_image(std::span<const uint8_t> file, Image& decoded);

/// Samples that are image files of any readable format, wherever their bytes come from. A derived
/// class defines size, name and label (or num_values, value_names and read_values), and read(); the
/// loader does decoding, transforms, order, ranks, resumption and reading ahead. All functions are
/// called by several threads at once.
class CodedSource : public Source {
 public:
  /// Reads the sample's whole file into `bytes`, which is empty, with capacity from earlier
  /// samples. May take as long as the storage does. Throws RunError with the reason, without the
  /// name.
  virtual void read(int64_t index, std::vector<uint8_t>& bytes) const = 0;

  int64_t channels() const override { return 3; }
  bool has_image_files() const override { return true; }
  Arrival arrival() const override { return Arrival::by_sample; }
  FileStamp fetch(int64_t index, std::vector<uint8_t>& bytes,
                  const RoomFor& room_for) const override;
  /// Where all samples lie in one file, which indexed_path() names, crop indices are kept until
  /// that file changes.
  StoredImage open(int64_t index, ReadScratch& scratch) const override;
};

}  // namespace composer

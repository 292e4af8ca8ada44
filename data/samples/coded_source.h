// Image files in memory, and the base of sources of one's own that give them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/samples/source.h"

namespace composer {

/// The image file that these bytes are: a JPEG stream lies where it lay, to be decoded when a part
/// of it is asked for; of other formats the pixels are in `decoded`. Throws RunError with the
/// reason.
StoredImage stored_image(std::span<const uint8_t> file, Image& decoded);

/// Samples that are image files, of any format that can be read, wherever their bytes come from. A
/// class derived from it says how many there are, what they are called and what their targets are
/// (size, name, label; or num_values, value_names, read_values), and reads one: decoding,
/// transforms, order, ranks, resumption and reading ahead are the loader's. All functions are
/// called by several threads at once.
class CodedSource : public Source {
 public:
  /// Puts the sample's whole file into `bytes`, which is empty, but has room from earlier samples.
  /// May take as long as the storage does. Throws RunError with the reason, without the name.
  virtual void read(int64_t index, std::vector<uint8_t>& bytes) const = 0;

  int64_t channels() const override { return 3; }
  bool has_image_files() const override { return true; }
  Arrival arrival() const override { return Arrival::by_sample; }
  FileStamp fetch(int64_t index, std::vector<uint8_t>& bytes,
                  const RoomFor& room_for) const override;
  /// Where all samples lie in one file, and indexed_path() names it, crop indices are kept until
  /// that file changes.
  StoredImage open(int64_t index, ReadScratch& scratch) const override;
};

}  // namespace composer

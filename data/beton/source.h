// The samples of a .beton file: its first image field and its first integer field.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "data/beton/beton.h"
#include "data/source.h"

namespace composer {

class BetonSource : public Source {
 public:
  /// channels: 3, or 1 to turn every image gray. Throws UserError when the file cannot be read, or
  /// has no image field or no integer field.
  BetonSource(const std::string& path, int64_t channels);

  const BetonFile& file() const { return file_; }

  int64_t size() const override { return file_.samples(); }
  int64_t channels() const override { return channels_; }
  int64_t label(int64_t index) const override { return file_.integer(index, label_field_); }
  std::string name(int64_t index) const override;
  StoredImage open(int64_t index, ReadScratch& scratch) const override;
  uint64_t paged_bytes() const override { return file_.file_bytes(); }
  int64_t page(int64_t index) const override;
  Arrival arrival() const override { return Arrival::by_range; }
  std::optional<Extent> extent(int64_t index, bool whole_page) const override;
  void bring(const Extent& extent) const override;
  void forget(int64_t index, bool whole_page) const override;
  std::filesystem::path indexed_path() const override { return file_.path(); }

 private:
  BetonFile file_;
  int64_t channels_;
  size_t image_field_ = 0, label_field_ = 0;
};

/// Whether a file is to be read as .beton: by its name (.beton, .ffcv), else by its first bytes.
bool is_beton(const std::filesystem::path& path);

/// Copies the file, and its crop index where that is wanted and the folder has none of this version
/// of the file, to the folder, with a progress line in the log, unless the same file (by size and
/// time) is there already; returns the copy's path. For folders on a disk of the machine's own.
/// Written beside and renamed. Throws UserError naming what is missing or full.
std::string copy_to_folder(const std::string& path, const std::string& folder, bool with_index);

}  // namespace composer

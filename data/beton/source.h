// The samples of a .beton file: the first image field, and the label or the chosen fields of
// numbers.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/beton/beton.h"
#include "data/samples/source.h"

namespace composer {

class BetonSource : public Source {
 public:
  /// How a file without an integer field is treated when no targets are named.
  enum class Unlabelled {
    refuse,
    take,  ///< all its samples get class 0
  };

  /// channels: 3, or 1 to turn every image gray. targets: names of the fields with each sample's
  /// values: real numbers, integers, arrays of plain numbers, or x for the fields x[0], x[1], ...;
  /// empty: the class in label_field(). image: name of the image field; empty: the first. Throws
  /// UserError when the file cannot be read, or lacks such fields.
  BetonSource(const std::string& path, int64_t channels,
              const std::vector<std::string>& targets = {},
              Unlabelled unlabelled = Unlabelled::refuse)
      : BetonSource(std::make_unique<const BetonFile>(path), channels, targets, unlabelled) {}
  BetonSource(std::unique_ptr<const BetonFile> file, int64_t channels,
              const std::vector<std::string>& targets = {},
              Unlabelled unlabelled = Unlabelled::refuse, const std::string& image = {});

  const BetonFile& file() const { return *file_; }
  bool has_classes() const { return label_field_.has_value(); }

  int64_t size() const override { return file_->samples(); }
  int64_t channels() const override { return channels_; }
  int64_t label(int64_t index) const override {
    return label_field_ ? file_->integer(index, *label_field_) : 0;
  }
  int64_t num_values() const override { return std::ssize(value_names_); }
  std::vector<std::string> value_names() const override { return value_names_; }
  void read_values(int64_t index, std::span<float> values) const override;
  std::string name(int64_t index) const override;
  StoredImage open(int64_t index, ReadScratch& scratch) const override;
  uint64_t paged_bytes() const override { return file_->file_bytes(); }
  int64_t page(int64_t index) const override;
  Arrival arrival() const override { return Arrival::by_range; }
  std::optional<Extent> extent(int64_t index, bool whole_page) const override;
  void bring(const Extent& extent) const override;
  bool is_remote() const override;
  std::shared_ptr<void> follow(Forecast forecast) const override;
  void forget(int64_t index, bool whole_page) const override;
  std::filesystem::path indexed_path() const override { return file_->path(); }
  std::optional<FileStamp> remote_stamp() const override;

 private:
  void add_values(size_t field);

  std::unique_ptr<const BetonFile> file_;
  int64_t channels_;
  size_t image_field_ = 0;
  std::optional<size_t> label_field_;  ///< empty with values, or without classes
  std::vector<size_t> value_fields_;
  std::vector<std::string> value_names_;
};

/// The integer field called label, labels, target or class, else the first one; the log names it
/// once when there are several. Nothing without an integer field.
std::optional<size_t> label_field(const BetonFile& file);

/// Names of the fields that may be targets.
std::vector<std::string> number_fields(const BetonFile& file);

/// Whether a file is read as .beton: its name ends in .beton or .ffcv, or a local file begins like
/// one.
bool is_beton(const std::filesystem::path& path);

/// Copies the file, which may be remote, to the folder, unless the folder has the same file already
/// (equal size and time; for a remote file an equal ETag, which is noted beside the copy).
/// with_index: copies the crop index too where the folder has none for this version of the file.
/// The log shows the progress. Files are written beside and renamed. Returns the copy's path.
/// Throws UserError naming what is missing or full.
std::string copy_to_folder(const std::string& path, const std::string& folder, bool with_index,
                           const RemoteOptions& remote = {});

}  // namespace composer

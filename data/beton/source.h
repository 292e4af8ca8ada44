// The samples of a .beton file: its first image field, and its label or the fields of numbers that
// are chosen.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/beton/beton.h"
#include "data/samples/source.h"

namespace composer {

class ObjectStore;
class RemotePath;

class BetonSource : public Source {
 public:
  /// What is done about a file without an integer field, where no targets are named.
  enum class Unlabelled {
    refuse,
    take,  ///< all its samples have the class 0
  };

  /// channels: 3, or 1 to turn every image gray. targets: names of fields whose numbers are each
  /// sample's values: real numbers, integers, arrays of plain numbers, or x for fields x[0], x[1],
  /// ...; none = the class of label_field(). Throws UserError when the file cannot be read, or
  /// lacks such fields.
  BetonSource(const std::string& path, int64_t channels,
              const std::vector<std::string>& targets = {},
              Unlabelled unlabelled = Unlabelled::refuse)
      : BetonSource(std::make_unique<const BetonFile>(path), channels, targets, unlabelled) {}
  BetonSource(std::unique_ptr<const BetonFile> file, int64_t channels,
              const std::vector<std::string>& targets = {},
              Unlabelled unlabelled = Unlabelled::refuse);

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
  std::optional<size_t> label_field_;  ///< none where there are values, or no classes
  std::vector<size_t> value_fields_;
  std::vector<std::string> value_names_;
};

/// The integer field called label, labels, target or class, else the first one, of which the log
/// tells once where there are several. Nothing where there is none.
std::optional<size_t> label_field(const BetonFile& file);

/// Names of the fields that targets may name.
std::vector<std::string> number_fields(const BetonFile& file);

/// Whether a file is to be read as .beton: by its name (.beton, .ffcv), else, of a local one, by
/// its first bytes.
bool is_beton(const std::filesystem::path& path);

/// Copies the file, which may be remote, and its crop index where that is wanted and the folder has
/// none of this version of the file, to the folder, with a progress line in the log, unless the
/// same file (by size and time, or a remote one's ETag, which is noted beside it) is there already;
/// returns the copy's path. For folders on a disk of the machine's own. Written beside and renamed.
/// Throws UserError naming what is missing or full.
std::string copy_to_folder(const std::string& path, const std::string& folder, bool with_index,
                           const RemoteOptions& remote = {});

/// The same of a store's object, without an index: what copy_to_folder does of remote paths.
std::string download_to_folder(ObjectStore& store, const RemotePath& path,
                               const std::string& folder);

}  // namespace composer

// Where the samples of a set lie: one table for folders of files, lists of files and archives.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/files/mapped_file.h"

namespace composer {

class TargetRows;

/// How a file or folder was when a table was made of it, as far as its status tells.
struct PathStamp {
  enum Kind : uint64_t {
    changing,   ///< it may have changed since without another status: equals nothing
    no_folder,  ///< no file either, or not there
    folder,
    file,
  };
  Kind kind = changing;
  uint64_t inode = 0;
  uint64_t bytes = 0;                 ///< of a file
  int64_t modified = 0, changed = 0;  ///< contents, status; ns since 1970

  bool operator==(const PathStamp& b) const {
    return kind != changing && kind == b.kind && inode == b.inode && bytes == b.bytes &&
           modified == b.modified && changed == b.changed;
  }
};
static_assert(sizeof(PathStamp) == 40);

/// Of a path, whose links are followed.
PathStamp path_stamp_of(const std::string& path);
/// Whether what lies there is what the stamp says: of no_folder, anything but a folder.
bool is_as_before(const std::string& path, const PathStamp& stamp);
/// Of an open file or folder.
PathStamp path_stamp_of(int file);
/// The stamp before something was read at `begin` (ns since 1970), given that after it: changing
/// where they differ, or where the clock of the file system may not have moved on since a change.
PathStamp settled(const PathStamp& before, const PathStamp& after, int64_t begin);
/// The time now, ns since 1970.
int64_t wall_clock_ns();

/// How the bytes of samples stand for images.
enum class SampleCoding : uint32_t {
  image_file = 0,  ///< JPEG, PNG, ...
  pil = 1,  ///< MosaicML's pil: width, height, length of the mode (32 bits each), mode, pixels
};

/// Samples as places in files, each a whole file or a part of one, and their classes or the numbers
/// that they have in place of one. Paths are relative to a root that the table does not know, or
/// absolute.
///
/// It lies in memory as in its file, all little-endian: a header of 96 bytes (magic, bytes of the
/// file, CRC-32 of the rest and of the header with 0 in that place, what samples are, counts, the
/// version); where each text begins, 8 bytes each (names of samples, containers, names of classes
/// or numbers, what is watched; the end); the class of each sample, 4 bytes, 0 where there are
/// numbers; these, 4 bytes each, sample by sample; of parts offsets, then lengths, 8 bytes each;
/// runs of samples in one container (first sample, container), 16 bytes; stamps of what is watched,
/// 40 bytes; the texts. Each begins at a multiple of 8. The version is of this format and of the
/// rules by which samples and their classes are found.
class SampleTable {
 public:
  /// Throw FormatError when the bytes are no whole table, UserError when there is no such file.
  explicit SampleTable(std::vector<uint8_t> bytes);
  explicit SampleTable(const std::filesystem::path& file);

  int64_t size() const { return static_cast<int64_t>(samples_); }
  bool has_parts() const { return parts_; }  ///< samples are parts of files
  SampleCoding coding() const { return coding_; }

  // About a sample. Throw RunError where the table's file can no longer be read.

  /// The folder of a whole file, with its '/' ("" where its name is all), or the file of a part.
  std::string_view container(int64_t sample) const { return text(containers_ + run_of(sample)); }
  uint64_t container_number(int64_t sample) const { return run_of(sample); }
  /// Of a file in its folder, or of a part in its file.
  std::string_view name(int64_t sample) const { return text(static_cast<uint64_t>(sample)); }
  int32_t label(int64_t sample) const { return number<int32_t>(labels_, sample); }
  /// Writes num_values() numbers.
  void read_values(int64_t sample, std::span<float> values) const;
  /// Of parts.
  uint64_t offset(int64_t sample) const { return number<uint64_t>(offsets_, sample); }
  uint64_t length(int64_t sample) const { return number<uint64_t>(lengths_, sample); }

  uint64_t containers() const { return container_count_; }
  std::string_view container_text(uint64_t i) const { return text(containers_ + i); }
  /// Names of the classes in order; empty where labels are numbers alone.
  std::vector<std::string> class_names() const;
  /// One more than the largest label; 0 where samples have numbers in place of classes.
  int64_t classes() const { return classes_; }
  /// How many numbers each sample has in place of a class; 0: it has a class.
  int64_t num_values() const { return static_cast<int64_t>(value_count_); }
  /// What these are called, in order.
  std::vector<std::string> value_names() const;

  /// What the table was made of.
  struct Watched {
    std::string_view path;
    PathStamp stamp;
  };
  uint64_t watched() const { return watched_count_; }
  Watched watched(uint64_t i) const;

 private:
  void parse();
  void check_texts() const;
  void check_samples();
  std::vector<std::string> target_names() const;
  std::string_view text(uint64_t i) const;
  uint64_t run_of(int64_t sample) const;
  [[noreturn]] void lost() const;

  template <class T>
  T load(std::span<const uint8_t> section, uint64_t i) const {
    T value;
    std::memcpy(&value, section.data() + i * sizeof value, sizeof value);
    return value;
  }
  template <class T>
  T number(std::span<const uint8_t> section, int64_t i) const {
    const auto at = section.subspan(static_cast<size_t>(i) * sizeof(T), sizeof(T));
    const T value = load<T>(at, 0);
    check(at);
    return value;
  }
  void check(std::span<const uint8_t> part) const;

  std::string file_;  ///< for errors
  std::unique_ptr<const MappedFile> mapping_;
  std::vector<uint8_t> owned_;
  std::span<const uint8_t> bytes_;

  bool parts_ = false;
  SampleCoding coding_ = SampleCoding::image_file;
  uint64_t samples_ = 0, runs_count_ = 0, container_count_ = 0, name_count_ = 0, watched_count_ = 0,
           value_count_ = 0;
  uint64_t containers_ = 0, names_ = 0, paths_ = 0;  ///< numbers of the first texts
  int64_t classes_ = 0;
  std::span<const uint8_t> begins_, labels_, values_, offsets_, lengths_, runs_, stamps_, texts_;
};

/// Makes a table's bytes.
class SampleTableWriter {
 public:
  explicit SampleTableWriter(bool parts = false, SampleCoding coding = SampleCoding::image_file)
      : parts_(parts), coding_(coding) {}

  /// A whole file.
  void add_file(std::string_view path, int32_t label);
  /// Of a table of parts.
  void add_part(std::string_view file, std::string_view name, uint64_t offset, uint64_t length,
                int32_t label);
  void add_class(std::string_view name) { target_names_.emplace_back(name); }
  /// In place of classes, of a table whose labels are 0. rows: one of each sample.
  void set_values(const TargetRows& rows);
  void watch(std::string_view path, const PathStamp& stamp);

  int64_t size() const { return static_cast<int64_t>(labels_.size()); }
  std::vector<uint8_t> bytes() const;

 private:
  void add(std::string_view container, std::string_view name, int32_t label);

  struct Run {
    uint64_t first, container;
  };

  const bool parts_;
  const SampleCoding coding_;
  std::string names_;
  std::vector<uint64_t> begins_;  ///< of names
  std::vector<int32_t> labels_;
  std::vector<uint64_t> offsets_, lengths_;
  std::vector<Run> runs_;
  std::vector<float> values_;
  uint64_t value_count_ = 0;  ///< of each sample
  std::vector<std::string> containers_, target_names_, watched_;
  std::unordered_map<std::string, uint64_t> numbers_;  ///< of containers
  std::vector<PathStamp> stamps_;
};

/// A table of whole files; their classes are their places.
std::shared_ptr<const SampleTable> table_of_files(const std::vector<std::string>& files);

}  // namespace composer

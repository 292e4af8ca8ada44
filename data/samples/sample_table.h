// The table of a set's samples, for folders of files, lists of files and archives alike. One
// process of a machine makes a table, and keeps it in the user's cache.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
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

/// The status of a file or folder when a table was made of it.
struct PathStamp {
  enum Kind : uint64_t {
    changing,   ///< it may have changed since without another status: equals no stamp
    no_folder,  ///< neither a file nor a folder, or missing
    folder,
    file,
  };
  Kind kind = changing;
  uint64_t inode = 0;
  uint64_t bytes = 0;                 ///< size of a file; 0 for a folder
  int64_t modified = 0, changed = 0;  ///< times of the contents and of the status, ns since 1970

  bool operator==(const PathStamp& b) const {
    return kind != changing && kind == b.kind && inode == b.inode && bytes == b.bytes &&
           modified == b.modified && changed == b.changed;
  }
};
static_assert(sizeof(PathStamp) == 40);

/// The stamp of a path, whose links are followed.
PathStamp path_stamp_of(const std::string& path);
/// Whether the path still has this stamp; for no_folder, whether it is no folder.
bool is_as_before(const std::string& path, const PathStamp& stamp);
/// The stamp of an open file or folder.
PathStamp path_stamp_of(int file);
/// The stamp of something that was read at `begin` (ns since 1970), from the stamps before and
/// after reading: `changing` where they differ, or where a change is so recent that the file
/// system's clock may not have moved on since.
PathStamp settled(const PathStamp& before, const PathStamp& after, int64_t begin);
/// The settled() stamp of a path that is read from now on.
PathStamp settled_stamp_of(const std::string& path);
/// The time now, ns since 1970.
int64_t wall_clock_ns();

/// The path itself where it is absolute, else the path below root, which ends with '/' or is empty.
std::string absolute_path(std::string_view root, std::string_view path);

/// How the bytes of samples code images.
enum class SampleCoding : uint32_t {
  image_file = 0,  ///< JPEG, PNG, ...
  pil = 1,  ///< MosaicML's pil: width, height, length of the mode (32 bits each), mode, pixels
};

/// Samples, each a whole file or a part of a file, with their classes, or with values in place of
/// classes. Paths are absolute, or relative to a root that the table does not know.
///
/// The layout in memory is that of the file, little-endian, with sections that begin at multiples
/// of 8 bytes: a header of 96 bytes (magic, bytes of the file, CRC-32 of the file with 0 in the
/// field of the CRC, kind of samples, counts, version); the offset of each text, 8 bytes (names of
/// samples, containers, names of classes or values, watched paths; then the end); the class of each
/// sample, 4 bytes, 0 where samples have values; the values, 4 bytes each, sample by sample; for
/// parts of files the offsets, then the lengths, 8 bytes each; runs of samples in one container
/// (first sample, container), 16 bytes; stamps of the watched paths, 40 bytes; the texts. The
/// version covers this format and the rules by which samples and their classes are found.
class SampleTable {
 public:
  /// Both throw FormatError when the bytes are not a whole table, UserError when there is no file.
  explicit SampleTable(std::vector<uint8_t> bytes);
  explicit SampleTable(const std::filesystem::path& file);

  int64_t size() const { return static_cast<int64_t>(samples_); }
  bool has_parts() const { return parts_; }  ///< whether samples are parts of files
  SampleCoding coding() const { return coding_; }

  // Properties of a sample. All throw RunError if the table's file can no longer be read.

  /// The folder of a whole file, with its '/' (empty for a name alone), or the file of a part.
  std::string_view container(int64_t sample) const { return text(containers_ + run_of(sample)); }
  uint64_t container_number(int64_t sample) const { return run_of(sample); }
  /// The name of a file in its folder, or of a part in its file.
  std::string_view name(int64_t sample) const { return text(static_cast<uint64_t>(sample)); }
  int32_t label(int64_t sample) const { return number<int32_t>(labels_, sample); }
  /// Writes the sample's num_values() values.
  void read_values(int64_t sample, std::span<float> values) const;
  /// The extent of a part in its file.
  uint64_t offset(int64_t sample) const { return number<uint64_t>(offsets_, sample); }
  uint64_t length(int64_t sample) const { return number<uint64_t>(lengths_, sample); }

  uint64_t containers() const { return container_count_; }
  std::string_view container_text(uint64_t i) const { return text(containers_ + i); }
  /// Names of the classes in order; empty if classes have only numbers.
  std::vector<std::string> class_names() const;
  /// One more than the largest label; 0 where samples have values.
  int64_t classes() const { return classes_; }
  /// The number of values that each sample has in place of a class; 0: classes.
  int64_t num_values() const { return static_cast<int64_t>(value_count_); }
  /// Names of the values, in order.
  std::vector<std::string> value_names() const;

  /// A file or folder that the table was made of.
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

  std::string file_;  ///< path for error messages
  std::unique_ptr<const MappedFile> mapping_;
  std::vector<uint8_t> owned_;
  std::span<const uint8_t> bytes_;

  bool parts_ = false;
  SampleCoding coding_ = SampleCoding::image_file;
  uint64_t samples_ = 0, runs_count_ = 0, container_count_ = 0, name_count_ = 0, watched_count_ = 0,
           value_count_ = 0;
  uint64_t containers_ = 0, names_ = 0, paths_ = 0;  ///< index of the first text of each kind
  int64_t classes_ = 0;
  std::span<const uint8_t> begins_, labels_, values_, offsets_, lengths_, runs_, stamps_, texts_;
};

/// Makes a table's bytes.
class SampleTableWriter {
 public:
  explicit SampleTableWriter(bool parts = false, SampleCoding coding = SampleCoding::image_file)
      : parts_(parts), coding_(coding) {}

  /// Adds a whole file.
  void add_file(std::string_view path, int32_t label);
  /// Adds a part of a file, to a table of parts.
  void add_part(std::string_view file, std::string_view name, uint64_t offset, uint64_t length,
                int32_t label);
  void add_class(std::string_view name) { target_names_.emplace_back(name); }
  /// Gives the samples values in place of classes; their labels must be 0. rows: one per sample.
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
  std::vector<uint64_t> begins_;  ///< offsets of the names
  std::vector<int32_t> labels_;
  std::vector<uint64_t> offsets_, lengths_;
  std::vector<Run> runs_;
  std::vector<float> values_;
  uint64_t value_count_ = 0;  ///< values of each sample
  std::vector<std::string> containers_, target_names_, watched_;
  std::unordered_map<std::string, uint64_t> numbers_;  ///< numbers of the containers
  std::vector<PathStamp> stamps_;
};

/// A table of whole files; the class of each is its index.
std::shared_ptr<const SampleTable> table_of_files(const std::vector<std::string>& files);

struct TableMaker {
  std::string does;                    ///< for the log: "lists the files of /data/train"
  std::string root;                    ///< prefix of the relative paths that a table watches
  std::vector<std::string> classes{};  ///< classes that the table must have; empty: any
  /// Makes the table's bytes; nullopt where there is no table.
  std::function<std::optional<std::vector<uint8_t>>()> make;
};

/// The table in `file`, where all paths that the table watches are unchanged; else a new table,
/// which is written to `file`. All processes of a machine map the same table; while one process
/// makes it, the others wait for it. Where the table cannot be kept, or `file` is empty, the log
/// says why, and each process makes its own. Null where make() returns nullopt; throws what make()
/// throws.
std::shared_ptr<const SampleTable> kept_table(const std::filesystem::path& file,
                                              const TableMaker& maker);

}  // namespace composer

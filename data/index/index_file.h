// Files of crop indices (data/jpeg/decoder.h), one for a set. They only grow: each process adds
// what it recorded as a segment, under a lock. Little-endian; a segment is a header of 64 bytes
// (magic, stamp of the source, number of entries, where their table begins), the indices one after
// the other, then the table sorted by key: key, stamp, offset in the segment, length, CRC-32 of
// key, stamp and index. Of two entries with the same key the later one counts; what does not end as
// its header says is no segment.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/atomic_file.h"
#include "base/files/mapped_file.h"

namespace composer {

/// Tells one version of a file from another.
struct FileStamp {
  uint64_t bytes = 0;
  int64_t time = 0;  ///< of the last change, ns since 1970
  bool operator==(const FileStamp&) const = default;
};

/// Throws RunError when there is no such file.
FileStamp stamp_of(const std::filesystem::path& path);

/// A path as a number (FNV-1a).
uint64_t key_of(std::string_view path);

/// Null: the stream was never looked at. Empty: it has none.
using StoredIndex = std::shared_ptr<const std::vector<uint8_t>>;

struct IndexEntry {
  FileStamp stamp;  ///< of the stream's own file; empty where all lie in one
  StoredIndex index;
};
using IndexEntries = std::map<uint64_t, IndexEntry>;

/// What the table of a segment says of an index.
struct IndexRow {
  uint64_t key;
  FileStamp stamp;
  uint64_t offset;  ///< in the segment; once it is read, in the file
  uint32_t length;
  uint32_t crc;
};
static_assert(sizeof(IndexRow) == 40);

/// Makes a whole file, of one segment, in place of an older one.
class IndexWriter {
 public:
  /// Throws RunError when it cannot be written, as the other functions do. Without finish() nothing
  /// is left.
  explicit IndexWriter(const std::filesystem::path& path);

  /// Keys must ascend.
  void add(uint64_t key, std::span<const uint8_t> index, const FileStamp& stamp = {});
  /// source: of the file that all streams lie in; empty for a folder.
  void finish(const FileStamp& source);

 private:
  friend void compact_index(const std::filesystem::path& path, const FileStamp& source);

  void end_segment(const FileStamp& source);

  AtomicFile file_;
  std::vector<uint8_t> table_;
  uint64_t entries_ = 0, last_key_ = 0;
};

/// The segments that were there when it was opened. Indices are read when they are asked for, and
/// checked: whatever is done to the file meanwhile, none is found that was not recorded. Large
/// tables of segments stay in the file, which all processes have in memory once.
class IndexTable {
 public:
  /// Without such a file, or one that can be read, empty. Segments of another source than `source`
  /// do not count.
  IndexTable(const std::filesystem::path& path, const FileStamp& source);
  ~IndexTable();
  IndexTable(const IndexTable&) = delete;
  IndexTable& operator=(const IndexTable&) = delete;

  StoredIndex find(uint64_t key, const FileStamp& stamp = {}) const;

  bool empty() const { return rows_.empty() && large_.empty(); }
  /// Where in the file the last segment ends.
  uint64_t end() const { return end_; }
  /// Whether the file is, for this source, one segment and nothing else.
  bool compact() const { return segments_ <= 1 && dead_ == 0 && whole_; }
  /// Whether so much of the file is of no use that it should be compacted.
  bool wasteful() const { return segments_ > 64 || dead_ > live_; }

 private:
  friend void compact_index(const std::filesystem::path& path, const FileStamp& source);

  /// A table in the file. Its keys ascend, unless something was done to the file since.
  struct MappedRows {
    std::span<const uint8_t> bytes;
    uint64_t segment;  ///< where it begins in the file

    uint64_t size() const { return bytes.size() / sizeof(IndexRow); }
    IndexRow row(uint64_t i) const;
    uint64_t key(uint64_t i) const;
    std::optional<IndexRow> find(uint64_t key) const;
  };

  void read(uint64_t begin, uint64_t table, uint64_t entries);
  bool map(uint64_t begin, uint64_t table, uint64_t entries);
  void sort();
  /// Calls use(row) for the last row of each key, by key.
  void for_each(const std::function<void(const IndexRow& row)>& use) const;
  StoredIndex index_of(const IndexRow& row) const;

  const std::filesystem::path path_;
  int file_ = -1;
  std::unique_ptr<const MappedFile> mapping_;  ///< null without large tables
  std::vector<MappedRows> large_;              ///< in the file's order
  std::vector<IndexRow> rows_;                 ///< of the other segments, by key, each once
  uint64_t segments_ = 0, live_ = 0, dead_ = 0;
  uint64_t end_ = 0;     ///< of the last segment
  bool whole_ = true;    ///< nothing follows the last segment
  std::string problem_;  ///< why the file cannot be read; empty where it can
};

/// Adds a segment; what a writer that was killed left behind the last one is cut off. Waits for
/// another process that writes, for half a minute at most. Throws RunError when it cannot be read
/// or written; the file is as it was then.
void append_indices(const std::filesystem::path& path, const FileStamp& source,
                    const IndexEntries& entries);

/// Gives `file`, written for this path, its name, unless an index there has entries of `source`.
/// Waits and throws as append_indices.
void replace_useless_index(const std::filesystem::path& path, const FileStamp& source,
                           AtomicFile& file);

/// Replaces the file by one that is compact but for what others add meanwhile: they wait for no
/// more than that. Waits and throws as append_indices.
void compact_index(const std::filesystem::path& path, const FileStamp& source);

}  // namespace composer

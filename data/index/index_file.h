// Files of crop indices (data/jpeg/decoder.h), one for a set. A file only grows: each process
// appends its indices as a segment, under a lock. A segment is little-endian: a header of 64 bytes
// (magic, stamp of the source, number of entries, offset of the table), the indices one after the
// other, and the table sorted by key: key, stamp, offset in the segment, length, CRC-32 of key,
// stamp and index. Of two entries with the same key the later one counts. A segment that does not
// end where its header says is ignored.
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

/// Distinguishes versions of a file.
struct FileStamp {
  uint64_t bytes = 0;
  int64_t time = 0;  ///< the last change, ns since 1970
  bool operator==(const FileStamp&) const = default;
};

/// Throws RunError when there is no such file.
FileStamp stamp_of(const std::filesystem::path& path);

/// A hash of a path (FNV-1a).
uint64_t key_of(std::string_view path);

/// Null for a stream that was never examined; empty for a stream that has no index.
using StoredIndex = std::shared_ptr<const std::vector<uint8_t>>;

struct IndexEntry {
  FileStamp stamp;  ///< the stamp of the stream's own file; empty when all streams lie in one file
  StoredIndex index;
};
using IndexEntries = std::map<uint64_t, IndexEntry>;

/// A row of a segment's table.
struct IndexRow {
  uint64_t key;
  FileStamp stamp;
  uint64_t offset;  ///< position in the segment; in the file once the row is read
  uint32_t length;
  uint32_t crc;
};
static_assert(sizeof(IndexRow) == 40);

/// Writes a whole file with one segment, which replaces an older file.
class IndexWriter {
 public:
  /// All functions throw RunError when the file cannot be written. Without finish() no file is
  /// left.
  explicit IndexWriter(const std::filesystem::path& path);

  /// Keys must ascend.
  void add(uint64_t key, std::span<const uint8_t> index, const FileStamp& stamp = {});
  /// source: the stamp of the file that all streams lie in; empty for a folder.
  void finish(const FileStamp& source);

 private:
  friend void compact_index(const std::filesystem::path& path, const FileStamp& source);

  void end_segment(const FileStamp& source);

  AtomicFile file_;
  std::vector<uint8_t> table_;
  uint64_t entries_ = 0, last_key_ = 0;
};

/// The segments that a file had when it was opened. Indices are read on demand and checked by their
/// CRC, so a file that changes meanwhile gives no wrong index. Large tables stay in the mapped
/// file, whose memory all processes share.
class IndexTable {
 public:
  /// Empty when the file is missing or cannot be read. Segments of other sources than `source` are
  /// ignored.
  IndexTable(const std::filesystem::path& path, const FileStamp& source);
  ~IndexTable();
  IndexTable(const IndexTable&) = delete;
  IndexTable& operator=(const IndexTable&) = delete;

  StoredIndex find(uint64_t key, const FileStamp& stamp = {}) const;

  bool empty() const { return rows_.empty() && large_.empty(); }
  /// The offset of the last segment's end.
  uint64_t end() const { return end_; }
  /// Whether the file is at most one segment, without useless entries or bytes behind it.
  bool compact() const { return segments_ <= 1 && dead_ == 0 && whole_; }
  /// Whether so much of the file is useless that it should be compacted.
  bool wasteful() const { return segments_ > 64 || dead_ > live_; }

 private:
  friend void compact_index(const std::filesystem::path& path, const FileStamp& source);

  /// A table in the mapped file. Its keys ascend, unless the file was changed since.
  struct MappedRows {
    std::span<const uint8_t> bytes;
    uint64_t segment;  ///< the segment's offset in the file

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
  std::vector<MappedRows> large_;              ///< in the order of the file
  std::vector<IndexRow> rows_;  ///< rows of the other segments; keys ascend and are unique
  uint64_t segments_ = 0, live_ = 0, dead_ = 0;
  uint64_t end_ = 0;     ///< the end of the last segment
  bool whole_ = true;    ///< nothing follows the last segment
  std::string problem_;  ///< why the file cannot be read; else empty
};

/// Appends a segment. Bytes behind the last whole segment, left by a writer that was killed, are
/// cut off. Waits at most half a minute for another process that writes. Throws RunError when the
/// file cannot be read or written, and leaves the segments as they were.
void append_indices(const std::filesystem::path& path, const FileStamp& source,
                    const IndexEntries& entries);

/// Commits `file`, written for this path, unless the index there has entries of `source`. Waits and
/// throws as append_indices.
void replace_useless_index(const std::filesystem::path& path, const FileStamp& source,
                           AtomicFile& file);

/// Replaces the file by a compact one, plus the segments that others append meanwhile: they wait
/// only while those are copied. Waits and throws as append_indices.
void compact_index(const std::filesystem::path& path, const FileStamp& source);

}  // namespace composer

// The crop indices of a set's JPEG streams (data/jpeg/decoder.h): recorded while images are
// decoded, kept in a side file from one run to the next.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "composer/storage/atomic_file.h"
#include "composer/storage/mapped_file.h"

namespace composer {

/// Tells one version of a file from another.
struct FileStamp {
  uint64_t bytes = 0;
  int64_t time = 0;  ///< of the last change, ns since 1970
  bool operator==(const FileStamp&) const = default;
};

/// Throws RunError when there is no such file.
FileStamp stamp_of(const std::filesystem::path& path);

/// The side file of a .beton file, F.beton.index, or of a folder, FOLDER/.composer-index.
std::filesystem::path index_file_of(const std::filesystem::path& source);

/// Writes a side file, an AtomicFile. Little-endian: a header of 64 bytes (magic, stamp of the
/// source, number of entries, where their table begins), the indices one after the other, then the
/// table sorted by key: key, stamp, offset, length, CRC-32 of key, stamp and index.
class IndexWriter {
 public:
  explicit IndexWriter(const std::filesystem::path& file);

  /// Keys must ascend. An empty index notes that the stream has none. stamp: of the stream's own
  /// file; empty where all lie in one.
  void add(uint64_t key, std::span<const uint8_t> index, const FileStamp& stamp = {});
  /// source: of the file that all streams lie in; empty for a folder. Throws RunError when not all
  /// could be written.
  void finish(const FileStamp& source);

 private:
  AtomicFile file_;
  std::vector<uint8_t> table_;
  uint64_t entries_ = 0, last_key_ = 0;
};

/// An index, and what keeps it in memory.
struct StoredIndex {
  std::span<const uint8_t> bytes;
  std::shared_ptr<const void> owner;
};

/// Functions may be called by several threads at once.
class IndexStore {
 public:
  /// samples: of the set. A side file that is missing, damaged or of another version of the source
  /// counts as empty.
  IndexStore(std::filesystem::path file, const FileStamp& source, int64_t samples);
  ~IndexStore();

  /// Nothing when the stream was never looked at; an empty index when it has none.
  std::optional<StoredIndex> find(int64_t sample, uint64_t key, const FileStamp& stamp = {}) const;
  void record(int64_t sample, uint64_t key, std::span<const uint8_t> index,
              const FileStamp& stamp = {});

  /// Adds what was recorded to the side file. Where that cannot be written, says so once in the log
  /// and keeps all in memory. Returns whether the file changed.
  bool save();

  const std::filesystem::path& file() const { return file_; }

 private:
  struct Entry;
  struct Table;
  struct Generation;

  std::shared_ptr<Generation> current() const;

  std::filesystem::path file_;
  FileStamp source_;
  mutable std::mutex lock_;
  std::shared_ptr<Generation> generation_;  ///< replaced when it has been saved
  std::atomic<bool> cannot_write_{false};
};

}  // namespace composer

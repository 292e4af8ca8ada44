// The crop indices of a set's JPEG streams (data/jpeg/decoder.h): recorded while images are
// decoded, and saved to a file for later runs by a thread of the store.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "data/index/index_file.h"

namespace composer {

struct IndexStoreOptions {
  std::string what = "the crop index of the images";  ///< for messages
  size_t segment_bytes = size_t{16} << 20;  ///< this many recorded bytes are saved at once
};

/// Functions may be called by several threads at once. Only flush() and the destructor wait for the
/// disk.
class IndexStore {
 public:
  /// file: is read and appended to. Empty: all stays in memory. also_read: another file of the same
  /// set, which is never written; may be empty. If it is not, the folder of `file` is created with
  /// the first segment. Files that are missing, damaged or of another version of the source count
  /// as empty.
  IndexStore(std::filesystem::path file, const FileStamp& source,
             const std::filesystem::path& also_read = {}, IndexStoreOptions options = {});
  /// Finishes the writing that save() began.
  ~IndexStore();

  /// Null for a stream that was never examined; empty for a stream without an index.
  StoredIndex find(uint64_t key, const FileStamp& stamp = {}) const;
  /// Replaces an older index. Whenever segment_bytes are recorded they are saved.
  void record(uint64_t key, std::span<const uint8_t> index, const FileStamp& stamp = {});

  /// Makes segments that other processes appended visible to find().
  void look_again();

  /// Appends the recorded indices to the file in the background. When that fails, the log says so
  /// once and the indices stay in memory.
  void save();
  /// Saves and waits. Throws RunError with the reason when the file cannot be written.
  void flush();

  const std::filesystem::path& file() const { return file_; }

 private:
  void wake();
  void write_in_background();
  std::string add_to_file(const IndexEntries& entries, std::shared_ptr<const IndexTable>& table);
  bool compact();
  void warn_once(const std::string& message);

  const std::filesystem::path file_;
  const FileStamp source_;
  const IndexStoreOptions options_;
  const std::unique_ptr<const IndexTable> also_read_;

  mutable std::mutex lock_;
  std::condition_variable wanted_changed_, written_;
  std::shared_ptr<const IndexTable> table_;
  IndexEntries recorded_;                        ///< indices that are not in the file
  std::shared_ptr<const IndexEntries> leaving_;  ///< indices that are being written
  size_t recorded_bytes_ = 0;
  bool wanted_ = false, stopping_ = false, waited_for_ = false, warned_ = false;
  std::string failure_;  ///< the last write's error; empty after a success
  std::thread writer_;   ///< started by the first save
};

}  // namespace composer

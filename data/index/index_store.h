// The crop indices of a set's JPEG streams (data/jpeg/decoder.h): recorded while images are
// decoded, kept in a file from one run to the next by a thread of the store's own.
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
  size_t segment_bytes = size_t{16} << 20;            ///< so many recorded ones are saved at once
};

/// Functions may be called by several threads at once. Only flush() and the destructor wait for the
/// disk's writing.
class IndexStore {
 public:
  /// file: read, and added to; its folder is made when it is first written. Empty: all stays in
  /// memory. also_read: a file of the same set that is never written; may be empty. Files that are
  /// missing, damaged or of another version of the source count as empty.
  IndexStore(std::filesystem::path file, const FileStamp& source,
             const std::filesystem::path& also_read = {}, IndexStoreOptions options = {});
  /// What save() was asked for is written before.
  ~IndexStore();

  /// Null when the stream was never looked at; an empty index when it has none.
  StoredIndex find(uint64_t key, const FileStamp& stamp = {}) const;
  /// In place of an older one. Every segment_bytes are saved at once.
  void record(uint64_t key, std::span<const uint8_t> index, const FileStamp& stamp = {});

  /// Finds, from now on, what other processes have added to the file.
  void look_again();

  /// Has what was recorded added to the file. Where that cannot be written, says so once in the log
  /// and keeps it in memory.
  void save();
  /// Saves, and waits for it. Throws RunError with the reason when it cannot be written.
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
  IndexEntries recorded_;                        ///< not in the file
  std::shared_ptr<const IndexEntries> leaving_;  ///< being written
  size_t recorded_bytes_ = 0;
  bool wanted_ = false, stopping_ = false, waited_for_ = false, warned_ = false;
  std::string failure_;  ///< of the last writing; empty when it went well
  std::thread writer_;   ///< begun when there is first something to write
};

}  // namespace composer

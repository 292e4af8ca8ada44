// Files that are whole or missing: they are written beside their path and renamed at the end.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace composer {

/// Writes to PATH.partial-HOST-PROCESS-NUMBER beside `path` until it is committed. Without a
/// commit, after an exception for instance, nothing is left and an older file stays as it was. All
/// errors are RunError with the path and the system's reason. Consecutive writes of less than 64
/// KiB are joined.
class AtomicFile {
 public:
  /// The folder must exist. An existing `path` must be a regular file.
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Writes at position().
  void write(std::span<const uint8_t> bytes) { write_at(position_, bytes); }
  void write(std::string_view text);
  /// at: the offset in the file. Bytes that are never written read as zeros.
  void write_at(uint64_t at, std::span<const uint8_t> bytes);

  /// The offset of the next write(): the end of the last write.
  uint64_t position() const { return position_; }

  /// Sets the file's time of the last change. Nothing may be written afterwards.
  void set_time(std::filesystem::file_time_type time);

  /// Renames the file to `path`, replacing an older one. Nothing may be written afterwards.
  void commit();
  /// commit() with the bytes flushed to the disk before the rename, and the name after it.
  void commit_to_disk();

 private:
  void open();
  void put(uint64_t at, std::span<const uint8_t> bytes);
  void put_waiting();
  void put_all();
  void close();
  [[noreturn]] void fail(int error) const;

  std::filesystem::path path_, partial_;
  int file_ = -1;
  std::vector<uint8_t> waiting_;  ///< bytes before position_, not yet written
  uint64_t position_ = 0;
};

/// Writes a whole file and flushes it to the disk. RunError when it cannot be written.
void write_whole(const std::filesystem::path& path, std::string_view text);

/// "PATH: Permission denied": why a system call on `path` failed. error: its errno.
std::string failure_text(const std::filesystem::path& path, int error);
/// "PATH: cannot be written: No space left on device (disk full?)".
std::string cannot_be_written(const std::filesystem::path& path, int error);

/// Flushes a folder's entries to the disk. RunError when that fails.
void flush_folder(const std::filesystem::path& folder);

/// Removes from `folder` the partial AtomicFiles of killed processes of this machine. Those of
/// other machines stay; a line in the log names each that is older than a day. A folder that is
/// missing or cannot be read is left alone.
void remove_partial_files(const std::filesystem::path& folder);

}  // namespace composer

// Files that are whole or not there: written beside their name, which they get at the end.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace composer {

/// Writes to PATH.partial-HOST-PROCESS-NUMBER beside `path` until it is committed; without that, an
/// exception included, nothing is left and an older file stays as it was. All errors are RunError
/// with the path and the system's reason. Writes of less than 64 KiB that follow one another are
/// put together.
class AtomicFile {
 public:
  /// The folder must be there. An existing `path` must be a regular file.
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Behind what was written last.
  void write(std::span<const uint8_t> bytes) { write_at(position_, bytes); }
  void write(std::string_view text);
  /// `at`: bytes from the beginning; what is never written reads as zeros.
  void write_at(uint64_t at, std::span<const uint8_t> bytes);

  /// Where write() goes on: the end of what was written last.
  uint64_t position() const { return position_; }

  /// When the file last changed, for those who look. Nothing may be written afterwards.
  void set_time(std::filesystem::file_time_type time);

  /// Gives the file its name, in place of an older one. Nothing may be written afterwards.
  void commit();
  /// The same, after the bytes, and before the name, have been flushed to the disk.
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

/// Writes a whole file of this content, flushed to the disk. RunError when it cannot be written.
void write_whole(const std::filesystem::path& path, std::string_view text);

/// "PATH: Permission denied": why a system call on `path` failed. error: its errno.
std::string failure_text(const std::filesystem::path& path, int error);
/// "PATH: cannot be written: No space left on device (disk full?)".
std::string cannot_be_written(const std::filesystem::path& path, int error);

/// Flushes a folder's entries to the disk. RunError when that fails.
void flush_folder(const std::filesystem::path& folder);

/// Removes from `folder` what processes of this machine that were killed while they wrote an
/// AtomicFile left there. Those of other machines it leaves, and says so in the log for each that
/// nobody wrote to for a day. A folder that is missing or cannot be read is left alone.
void remove_partial_files(const std::filesystem::path& folder);

}  // namespace composer

// Locks between processes: for work that one process does for all others, and for files that
// several processes append to.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace composer {

/// One holder at a time among all processes and threads that name the same lock file. The file is
/// created for the lock and removed with it. A lock ends with its process, however the process
/// ends.
class FileLock {
 public:
  /// Waits for the holder; after a second the log says "waiting for another process, which `does`".
  /// The folder must exist. Throws RunError when a signal asks the run to end meanwhile.
  FileLock(std::filesystem::path file, const std::string& does);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  /// Whether another process held the lock first.
  bool waited() const { return waited_; }
  /// Why the lock is not held: the file cannot be created, or its file system has no locks. Empty
  /// when it is held.
  const std::string& problem() const { return problem_; }
  bool no_locks() const { return no_locks_; }  ///< whether the file system has no locks

 private:
  bool wait_for_it(const std::string& does);
  void close();

  const std::filesystem::path path_;
  int file_ = -1;
  bool waited_ = false, no_locks_ = false;
  std::string problem_;
};

/// Reads `bytes` bytes; false when the file ends before. Throws RunError with the reason on an
/// error.
bool read_at(int file, uint64_t at, void* to, size_t bytes);

/// The file's length; 0 unless it is a regular file.
uint64_t size_of(int file);

/// Whether both descriptors are open on the same file.
bool same_file(int a, int b);

/// Whether the path still names the open file, and no other file replaced it.
bool has_path(int file, const std::filesystem::path& path);

/// A file that this process alone appends to until it is closed.
class LockedFile {
 public:
  /// Creates a missing file. Waits at most half a minute for another process that writes. All
  /// functions throw RunError with the path and the reason.
  explicit LockedFile(const std::filesystem::path& path);
  ~LockedFile() { close(); }
  LockedFile(const LockedFile&) = delete;
  LockedFile& operator=(const LockedFile&) = delete;

  int number() const { return number_; }

  /// Writes the bytes at offset `end`; when not all can be written, the file is truncated to `end`,
  /// or removed for 0.
  void put(uint64_t end, std::span<const uint8_t> bytes);
  void cut(uint64_t end);

 private:
  void lock();
  [[noreturn]] void give_up(uint64_t end, int error);
  void close();

  std::filesystem::path path_;
  int number_ = -1;
};

}  // namespace composer

// Locks between processes: work that one does for all others, and files that several add to, one at
// a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace composer {

/// One holder at a time among all processes, and threads, that name the same file. The file is made
/// for it and goes with it. A lock ends with its process, however that ends.
class FileLock {
 public:
  /// Waits for the holder; after a second a line in the log tells, "waiting for another process,
  /// which `does`". The folder must be there. Throws RunError where a signal asks the run to end
  /// meanwhile.
  FileLock(std::filesystem::path file, const std::string& does);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  /// Whether there was another holder before.
  bool waited() const { return waited_; }
  /// Why there is no lock: the file cannot be made, or its file system has none. Empty where it is
  /// held.
  const std::string& problem() const { return problem_; }
  bool no_locks() const { return no_locks_; }  ///< of the file system

 private:
  bool wait_for_it(const std::string& does);
  void close();

  const std::filesystem::path path_;
  int file_ = -1;
  bool waited_ = false, no_locks_ = false;
  std::string problem_;
};

/// Whether there were so many bytes. Throws RunError with the reason when they cannot be read.
bool read_at(int file, uint64_t at, void* to, size_t bytes);

/// 0 where it is no file that has bytes.
uint64_t size_of(int file);

/// Whether both are open on the same file.
bool same_file(int a, int b);

/// Whether the path is that of the open file, and not of another that took its place.
bool has_path(int file, const std::filesystem::path& path);

/// A file that this process alone adds to, until it is closed.
class LockedFile {
 public:
  /// Makes it where there is none. Waits for another process that writes, for half a minute at
  /// most. Throws RunError with the path and the reason, as the functions below.
  explicit LockedFile(const std::filesystem::path& path);
  ~LockedFile() { close(); }
  LockedFile(const LockedFile&) = delete;
  LockedFile& operator=(const LockedFile&) = delete;

  int number() const { return number_; }

  /// `end` is where the bytes begin, and where the file is cut when not all can be written.
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

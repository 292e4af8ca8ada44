// A file that several processes add to, one at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

namespace composer {

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

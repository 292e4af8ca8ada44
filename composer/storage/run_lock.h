// Keeps a run folder to one process.
#pragma once

#include <filesystem>
#include <string>

namespace composer {

/// A lock on the file .lock in a run folder. It ends with this object, and with its process however
/// that ends.
class RunLock {
 public:
  /// Makes the folder if need be; its parent must be there. UserError when another process has the
  /// lock, naming it, its host and since when, or when the folder cannot be made or written in.
  /// Where the file system has no locks, a warning.
  explicit RunLock(std::filesystem::path folder);
  /// Removes the file, and the folder when nothing else is in it.
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  /// Frees the 64 KiB of the disk that the lock's file keeps for what must be written on a full
  /// one.
  void free_room() const;

  /// Whether the folder was not there before.
  bool made_folder() const { return made_folder_; }

 private:
  bool take();

  std::filesystem::path folder_, path_;
  bool made_folder_ = false;
  size_t text_size_ = 0;  ///< of what the file says
  int file_ = -1;
};

}  // namespace composer

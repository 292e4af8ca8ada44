// Work that one process does for all others.
#pragma once

#include <filesystem>
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

}  // namespace composer

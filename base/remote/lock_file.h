// A file that one process holds at a time.
#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>

#include "base/clock.h"

namespace composer {

/// One holder at a time among all processes, and threads, that name the same file. The file stays;
/// a lock ends with its process.
class LockFile {
 public:
  /// Makes the file where there is none, and waits so many seconds for another holder. A link is
  /// not followed.
  LockFile(const std::filesystem::path& path, double patience)
      : file_(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666)) {
    error_ = file_ < 0 ? errno : 0;
    const double late = steady_seconds() + patience;
    std::chrono::milliseconds pause(2);
    while (file_ >= 0 && ::flock(file_, LOCK_EX | LOCK_NB) != 0) {
      const int error = errno;
      if (error != EINTR && (error != EWOULDBLOCK || steady_seconds() > late)) {
        error_ = error;
        break;
      }
      std::this_thread::sleep_for(pause);
      pause = std::min(2 * pause, std::chrono::milliseconds(100));
    }
  }
  ~LockFile() {
    if (file_ >= 0) ::close(file_);
  }
  LockFile(const LockFile&) = delete;
  LockFile& operator=(const LockFile&) = delete;

  /// 0, or why it is not held: errno; EWOULDBLOCK where another one did not let go of it.
  int error() const { return error_; }
  /// The same for people; empty: it is held.
  std::string problem() const {
    if (error_ == 0) return "";
    return error_ == EWOULDBLOCK ? "another process does not let go of it"
                                 : "cannot be locked: " + std::string(std::strerror(error_));
  }

 private:
  const int file_;
  int error_ = 0;
};

}  // namespace composer

#include "data/files/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/process/interrupt.h"
#include "data/files/locked_file.h"

namespace composer {

FileLock::FileLock(std::filesystem::path file, const std::string& does) : path_(std::move(file)) {
  do {  // again where the holder before took the file away
    close();
    file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
    if (file_ < 0) problem_ = std::strerror(errno);
  } while (file_ >= 0 && wait_for_it(does) && !has_path(file_, path_));
}

FileLock::~FileLock() {
  if (file_ >= 0) ::unlink(path_.c_str());
  close();
}

/// Whether it is held then.
bool FileLock::wait_for_it(const std::string& does) {
  constexpr auto pause = std::chrono::milliseconds(10);
  const double begin = steady_seconds();
  bool told = false;
  while (::flock(file_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      problem_ = std::strerror(errno);
      no_locks_ = true;
      ::unlink(path_.c_str());
      close();
      return false;
    }
    waited_ = true;
    if (received_signal() != 0)
      throw RunError("asked to end while waiting for another process, which " + does);
    if (steady_seconds() - begin > 1 && !std::exchange(told, true))
      log::info("waiting for another process, which " + does);
    std::this_thread::sleep_for(pause);
  }
  return true;
}

void FileLock::close() {
  if (file_ >= 0) ::close(std::exchange(file_, -1));
}

}  // namespace composer

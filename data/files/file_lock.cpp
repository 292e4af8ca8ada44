#include "data/files/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/atomic_file.h"
#include "base/log.h"
#include "base/process/interrupt.h"

namespace composer {

bool read_at(int file, uint64_t at, void* to, size_t bytes) {
  auto* out = static_cast<uint8_t*>(to);
  while (bytes > 0) {
    const ssize_t got = ::pread(file, out, bytes, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw RunError("cannot be read: " + std::string(std::strerror(errno)));
    if (got == 0) return false;
    out += got, at += static_cast<uint64_t>(got), bytes -= static_cast<size_t>(got);
  }
  return true;
}

uint64_t size_of(int file) {
  struct stat status {};
  return ::fstat(file, &status) == 0 && S_ISREG(status.st_mode)
             ? static_cast<uint64_t>(status.st_size)
             : 0;
}

bool same_file(int a, int b) {
  struct stat one {
  }, other{};
  return ::fstat(a, &one) == 0 && ::fstat(b, &other) == 0 && one.st_ino == other.st_ino &&
         one.st_dev == other.st_dev;
}

bool has_path(int file, const std::filesystem::path& path) {
  struct stat here {
  }, there{};
  return ::fstat(file, &here) == 0 && ::stat(path.c_str(), &there) == 0 &&
         here.st_ino == there.st_ino && here.st_dev == there.st_dev;
}

FileLock::FileLock(std::filesystem::path file, const std::string& does) : path_(std::move(file)) {
  do {  // again when the previous holder removed the file
    close();
    file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
    if (file_ < 0) problem_ = std::strerror(errno);
  } while (file_ >= 0 && wait_for_it(does) && !has_path(file_, path_));
}

FileLock::~FileLock() {
  if (file_ >= 0) ::unlink(path_.c_str());
  close();
}

/// Returns whether the lock is held.
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

LockedFile::LockedFile(const std::filesystem::path& path) : path_(path) {
  constexpr int most_renamings = 100;
  // Another process may have replaced the file before it was locked.
  for (int tries = 0; tries == 0 || !has_path(number_, path_); ++tries) {
    close();
    if (tries == most_renamings)
      throw RunError(path.string() + ": is replaced by others all the time");
    number_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
    if (number_ < 0) throw RunError(cannot_be_written(path, errno));
    lock();
  }
}

void LockedFile::put(uint64_t end, std::span<const uint8_t> bytes) {
  uint64_t at = end;
  while (!bytes.empty()) {
    const ssize_t done = ::pwrite(number_, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) give_up(end, done < 0 ? errno : ENOSPC);
    bytes = bytes.subspan(static_cast<size_t>(done)), at += static_cast<uint64_t>(done);
  }
}

void LockedFile::cut(uint64_t end) {
  if (::ftruncate(number_, static_cast<off_t>(end)) != 0)
    throw RunError(cannot_be_written(path_, errno));
}

void LockedFile::lock() {
  constexpr std::chrono::milliseconds kMostWaiting(30'000), kPause(20);
  const auto until = std::chrono::steady_clock::now() + kMostWaiting;
  int error = 0;
  const auto held = [&] {
    error = ::flock(number_, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
    return error == EWOULDBLOCK || error == EINTR;
  };
  while (held() && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(kPause);
  if (error == 0) return;
  close();
  throw RunError(path_.string() + ": cannot be written: " +
                 (error == EWOULDBLOCK ? "another process has been writing it for half a minute"
                                       : std::strerror(error)));
}

void LockedFile::give_up(uint64_t end, int error) {
  // Readers of the file ignore bytes that cannot be truncated.
  [[maybe_unused]] const int done =
      end == 0 ? ::unlink(path_.c_str()) : ::ftruncate(number_, static_cast<off_t>(end));
  throw RunError(cannot_be_written(path_, error));
}

void LockedFile::close() {
  if (number_ >= 0) ::close(number_);
  number_ = -1;
}

}  // namespace composer

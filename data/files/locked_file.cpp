#include "data/files/locked_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include "base/error.h"
#include "base/files/atomic_file.h"

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
  if (::ftruncate(number_, static_cast<off_t>(end)) != 0) {
    throw RunError(cannot_be_written(path_, errno));
  }
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
  // What cannot be cut off is not counted by those who read the file.
  [[maybe_unused]] const int done =
      end == 0 ? ::unlink(path_.c_str()) : ::ftruncate(number_, static_cast<off_t>(end));
  throw RunError(cannot_be_written(path_, error));
}

void LockedFile::close() {
  if (number_ >= 0) ::close(number_);
  number_ = -1;
}

}  // namespace composer

#include "base/remote/locks.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <limits>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/atomic_file.h"

namespace composer {
namespace {

struct flock flock_of(short type, const RangeLock::Range& range) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(range.begin);
  lock.l_len = static_cast<off_t>(range.end - range.begin);
  return lock;
}

int call(int file, int command, struct flock& lock) {
  int result;
  do {
    result = ::fcntl(file, command, &lock);
  } while (result != 0 && errno == EINTR);
  return result;
}

const std::filesystem::path& made_file(const std::filesystem::path& path, uint64_t bytes) {
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (file < 0) throw RunError(failure_text(path, errno));
  // Allocated: a disk that is full must not be met through the mapping.
  const int error = ::posix_fallocate(file, 0, static_cast<off_t>(bytes));
  ::close(file);
  if (error != 0) throw RunError(failure_text(path, error));
  return path;
}

}  // namespace

LockFile::LockFile(const std::filesystem::path& path, double patience)
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

LockFile::~LockFile() {
  if (file_ >= 0) ::close(file_);
}

std::string LockFile::problem() const {
  if (error_ == 0) return "";
  return error_ == EWOULDBLOCK ? "another process keeps the lock"
                               : "cannot be locked: " + std::string(std::strerror(error_));
}

RangeLock::RangeLock(const std::filesystem::path& file)
    : file_(::open(file.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC)) {
  if (file_ < 0) throw RunError(failure_text(file, errno));
}

RangeLock::~RangeLock() { ::close(file_); }

bool RangeLock::try_lock(Kind kind, const Range& range) {
  auto lock = flock_of(kind == Kind::shared ? F_RDLCK : F_WRLCK, range);
  if (call(file_, F_OFD_SETLK, lock) == 0) return true;
  if (errno == EAGAIN || errno == EACCES) return false;
  throw RunError("the cache of remote data cannot be locked: " + std::string(std::strerror(errno)));
}

void RangeLock::unlock(const Range& range) {
  auto lock = flock_of(F_UNLCK, range);
  call(file_, F_OFD_SETLK, lock);
}

std::optional<RangeLock::Range> RangeLock::in_the_way(const Range& range) const {
  auto lock = flock_of(F_WRLCK, range);
  if (call(file_, F_OFD_GETLK, lock) != 0 || lock.l_type == F_UNLCK) return std::nullopt;
  const auto begin = static_cast<uint64_t>(lock.l_start);
  return Range{begin, lock.l_len == 0 ? std::numeric_limits<uint64_t>::max()
                                      : begin + static_cast<uint64_t>(lock.l_len)};
}

Reservation::Reservation(const std::filesystem::path& path)
    : locks_(made_file(path, kProcesses * sizeof(Number))) {
  const int file = ::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC);
  if (file < 0) throw RunError(failure_text(path, errno));
  void* const memory =
      ::mmap(nullptr, kProcesses * sizeof(Number), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  if (memory == MAP_FAILED) throw RunError(failure_text(path, errno));
  numbers_ = static_cast<Number*>(memory);
  for (uint64_t i = 0; i < kProcesses && !slot_; ++i)
    if (locks_.try_lock(RangeLock::Kind::exclusive, {i, i + 1})) slot_ = i;
  own() = 0;
}

Reservation::~Reservation() { ::munmap(numbers_, kProcesses * sizeof(Number)); }

Reservation::Others Reservation::others() const {
  Others others;
  for (uint64_t i = 0; i < kProcesses; ++i)
    if (locks_.in_the_way({i, i + 1})) ++others.processes, others.bytes += numbers_[i];
  return others;
}

}  // namespace composer

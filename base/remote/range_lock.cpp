#include "base/remote/range_lock.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <string>

#include "base/error.h"

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

}  // namespace

RangeLock::RangeLock(const std::filesystem::path& file)
    : file_(::open(file.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC)) {
  if (file_ < 0) throw RunError(file.string() + ": " + std::strerror(errno));
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

}  // namespace composer

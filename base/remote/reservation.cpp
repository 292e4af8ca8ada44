#include "base/remote/reservation.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "base/error.h"

namespace composer {
namespace {

RunError failure(const std::filesystem::path& file) {
  return RunError(file.string() + ": " + std::strerror(errno));
}

const std::filesystem::path& made_file(const std::filesystem::path& path, uint64_t bytes) {
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (file < 0) throw failure(path);
  // Allocated: a disk that is full must not be met through the mapping.
  const int error = ::posix_fallocate(file, 0, static_cast<off_t>(bytes));
  ::close(file);
  if (error != 0) throw RunError(path.string() + ": " + std::strerror(error));
  return path;
}

}  // namespace

Reservation::Reservation(const std::filesystem::path& path)
    : locks_(made_file(path, kProcesses * sizeof(Number))) {
  const int file = ::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC);
  if (file < 0) throw failure(path);
  void* const memory =
      ::mmap(nullptr, kProcesses * sizeof(Number), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  if (memory == MAP_FAILED) throw failure(path);
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

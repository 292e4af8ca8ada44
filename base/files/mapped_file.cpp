#include "base/files/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/error.h"

namespace composer {
namespace {

size_t page_size() {
  static const auto bytes = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

/// madvise() of the pages that the part lies in.
int advise(std::span<const uint8_t> part, int advice) {
  const auto begin = reinterpret_cast<uintptr_t>(part.data()) / page_size() * page_size();
  const auto end = reinterpret_cast<uintptr_t>(part.data()) + part.size();
  return ::madvise(reinterpret_cast<void*>(begin), end - begin, advice);
}

/// Reads the part of the file into nowhere, up to the first problem.
void read_through(int file, uint64_t begin, uint64_t end) {
  std::vector<uint8_t> block(size_t{256} << 10);
  while (begin < end) {
    const size_t most = std::min<uint64_t>(block.size(), end - begin);
    const ssize_t got = ::pread(file, block.data(), most, static_cast<off_t>(begin));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return;
    begin += static_cast<uint64_t>(got);
  }
}

}  // namespace

MappedFile::Mapping::~Mapping() {
  if (data != nullptr) ::munmap(const_cast<uint8_t*>(data), size);
  if (file >= 0) ::close(file);
}

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  mapping_.file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  map();
}

MappedFile::MappedFile(const std::filesystem::path& path, int file) : path_(path) {
  mapping_.file = ::fcntl(file, F_DUPFD_CLOEXEC, 0);
  map();
}

void MappedFile::map() {
  const auto fail = [&](const std::string& reason) {
    return UserError(path_.string() + ": " + reason);
  };
  if (mapping_.file < 0) throw fail(errno == ENOENT ? "no such file" : std::strerror(errno));
  struct stat status {};
  const bool known = ::fstat(mapping_.file, &status) == 0;
  if (!known || !S_ISREG(status.st_mode)) throw fail("not a file");
  mapping_.size = static_cast<size_t>(status.st_size);
  if (mapping_.size == 0) return;
  void* const data = ::mmap(nullptr, mapping_.size, PROT_READ, MAP_PRIVATE, mapping_.file, 0);
  if (data == MAP_FAILED) throw fail(std::strerror(errno));
  mapping_.data = static_cast<const uint8_t*>(data);
  pages_ = std::make_unique<LostPages>(bytes(), mapping_.file);
}

std::optional<uint64_t> MappedFile::shrunk_to() const {
  struct stat status {};
  if (::fstat(mapping_.file, &status) != 0) return std::nullopt;
  const auto now = static_cast<uint64_t>(status.st_size);
  return now < mapping_.size ? std::optional(now) : std::nullopt;
}

/// Whether the file may be shorter by now than up to this byte's end, without a fault that told: in
/// its last page a shorter file has nothing but zeros behind its end.
bool MappedFile::may_end_before(const uint8_t* byte) const {
  const auto offset = static_cast<size_t>(byte - mapping_.data);
  const size_t page_end = std::min((offset / page_size() + 1) * page_size(), mapping_.size);
  const volatile uint8_t* const data = mapping_.data;
  for (size_t at = offset; at < page_end; ++at)
    if (data[at] != 0) return false;
  return true;
}

void MappedFile::check(std::span<const uint8_t> part) const {
  if (part.empty()) return;
  const bool may_be_cut = may_end_before(&part.back());
  const bool is_lost = lost(part);
  if (!may_be_cut && !is_lost) return;
  const auto now = shrunk_to();
  const auto end = static_cast<uint64_t>(&part.back() - mapping_.data) + 1;
  if (!is_lost && !(now && *now < end)) return;
  throw RunError(now ? "the file was cut off while it was read: " + std::to_string(*now) + " of " +
                           std::to_string(mapping_.size) + " bytes are left"
                     : "the file can no longer be read: its disk or network failed");
}

void MappedFile::check_unread(std::span<const uint8_t> part) const {
  const volatile uint8_t* const data = part.data();
  for (size_t at = 0; at < part.size(); at += page_size()) static_cast<void>(data[at]);
  check(part);
}

void MappedFile::bring(std::span<const uint8_t> part) const {
#ifdef MADV_POPULATE_READ
  constexpr int populate = MADV_POPULATE_READ;
#else
  constexpr int populate = 22;
#endif
  constexpr size_t step = 128 << 10;  // of longer advice systems may take the beginning alone
  if (part.empty()) return;
  for (size_t at = 0; at < part.size(); at += step)
    advise(part.subspan(at, std::min(step, part.size() - at)), MADV_WILLNEED);
  // A page that cannot be read ends it without a signal.
  if (advise(part, populate) == 0 || errno != EINVAL) return;
  const auto begin = static_cast<uint64_t>(part.data() - mapping_.data);
  read_through(mapping_.file, begin, begin + part.size());
}

void MappedFile::forget(std::span<const uint8_t> part) const {
  if (!part.empty()) advise(part, MADV_PAGEOUT);
}

void MappedFile::check_all() const {
  try {
    check(bytes());
  } catch (const RunError& error) {
    throw RunError(path_.string() + ": " + error.what());
  }
}

}  // namespace composer

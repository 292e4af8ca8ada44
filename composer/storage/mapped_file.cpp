#include "composer/storage/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "composer/error.h"

namespace composer {

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  const auto fail = [&](const std::string& reason) {
    if (file_ >= 0) ::close(file_);
    return UserError(path.string() + ": " + reason);
  };
  file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file_ < 0) throw fail(errno == ENOENT ? "no such file" : std::strerror(errno));
  struct stat status {};
  const bool known = ::fstat(file_, &status) == 0;
  if (!known || !S_ISREG(status.st_mode)) throw fail("not a file");
  size_ = static_cast<size_t>(status.st_size);
  if (size_ == 0) return;
  void* const mapping = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file_, 0);
  if (mapping == MAP_FAILED) throw fail(std::strerror(errno));
  data_ = static_cast<const uint8_t*>(mapping);
  pages_ = std::make_unique<LostPages>(bytes(), file_);
}

MappedFile::~MappedFile() {
  pages_.reset();
  if (data_ != nullptr) ::munmap(const_cast<uint8_t*>(data_), size_);
  ::close(file_);
}

std::optional<uint64_t> MappedFile::shrunk_to() const {
  struct stat status {};
  if (::fstat(file_, &status) != 0) return std::nullopt;
  const auto now = static_cast<uint64_t>(status.st_size);
  return now < size_ ? std::optional(now) : std::nullopt;
}

void MappedFile::check(std::span<const uint8_t> part) const {
  if (part.empty()) return;
  // In its last page a shorter file has zeros behind its end, and no fault tells.
  const volatile uint8_t& last = part.back();
  const bool ends_with_zero = last == 0;
  const bool is_lost = lost(part);
  if (!ends_with_zero && !is_lost) return;
  const auto now = shrunk_to();
  const auto end = static_cast<uint64_t>(&part.back() - data_) + 1;
  if (!is_lost && !(now && *now < end)) return;
  throw RunError(now ? "the file was cut off while it was read: " + std::to_string(*now) + " of " +
                           std::to_string(size_) + " bytes are left"
                     : "the file can no longer be read: its disk or network failed");
}

void MappedFile::check_all() const {
  try {
    check(bytes());
  } catch (const RunError& error) {
    throw RunError(path_.string() + ": " + error.what());
  }
}

}  // namespace composer

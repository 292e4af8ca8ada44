#include "composer/storage/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "composer/error.h"

namespace composer {

MappedFile::MappedFile(const std::filesystem::path& path) {
  const auto fail = [&](const std::string& reason) {
    return UserError(path.string() + ": " + reason);
  };
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) throw fail(errno == ENOENT ? "no such file" : std::strerror(errno));
  struct stat status {};
  const bool known = ::fstat(file, &status) == 0;
  if (!known || !S_ISREG(status.st_mode)) {
    ::close(file);
    throw fail("not a file");
  }
  size_ = static_cast<size_t>(status.st_size);
  void* const mapping =
      size_ == 0 ? nullptr : ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
  const int error = errno;
  ::close(file);
  if (mapping == MAP_FAILED) throw fail(std::strerror(error));
  data_ = static_cast<const uint8_t*>(mapping);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<uint8_t*>(data_), size_);
}

}  // namespace composer

// A file that lies in memory and has a path.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

namespace composer::test {

class MemoryFile {
 public:
  MemoryFile() : number_(memfd_create("composer_fuzz", MFD_CLOEXEC)) {
    if (number_ < 0) throw std::logic_error("no file in memory");
  }
  ~MemoryFile() { close(number_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  void set(std::span<const uint8_t> bytes) const {
    const auto size = static_cast<ssize_t>(bytes.size());
    if (ftruncate(number_, size) != 0 || pwrite(number_, bytes.data(), bytes.size(), 0) != size) {
      throw std::logic_error("the file in memory cannot be written");
    }
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(number_); }

 private:
  int number_;
};

}  // namespace composer::test

// A file's bytes, mapped into memory for reading.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace composer {

class MappedFile {
 public:
  /// Throws UserError naming the path when it is no readable file.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const uint8_t> bytes() const { return {data_, size_}; }

 private:
  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace composer

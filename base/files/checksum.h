// Checksums of bytes in files.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace composer {

/// The number and the CRC-32 of the bytes that were added.
class Checksum {
 public:
  void add(std::span<const uint8_t> bytes);

  uint64_t bytes() const { return bytes_; }
  uint32_t crc32() const { return crc32_; }

 private:
  uint64_t bytes_ = 0;
  uint32_t crc32_ = 0;
};

/// CRC-32C (Castagnoli), the checksum of TensorFlow's record files.
uint32_t crc32c(std::string_view bytes);

}  // namespace composer

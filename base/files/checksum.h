// What tells a file's bytes from others: how many they are, and their CRC-32.
#pragma once

#include <cstdint>
#include <span>

namespace composer {

class Checksum {
 public:
  /// Bytes that follow those before.
  void add(std::span<const uint8_t> bytes);

  uint64_t bytes() const { return bytes_; }
  uint32_t crc32() const { return crc32_; }

 private:
  uint64_t bytes_ = 0;
  uint32_t crc32_ = 0;
};

}  // namespace composer

// SHA-256 (FIPS 180-4): names pixels and files by their content.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

namespace composer {

class Sha256 {
 public:
  void update(std::span<const uint8_t> bytes);
  /// Ends the message; the object must not be used afterwards.
  std::array<uint8_t, 32> digest();

 private:
  std::array<uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> block_{};  // of which `length_ % 64` bytes are filled
  uint64_t length_ = 0;
};

/// 64 lower-case hexadecimal digits.
std::string to_hex(const std::array<uint8_t, 32>& digest);

/// Of the whole message, as to_hex writes it.
std::string sha256_hex(std::span<const uint8_t> bytes);

/// Compresses whole blocks of 64 bytes into the state: by the processor's SHA instructions where it
/// has them (allow_instructions), else in plain C++ with the same result.
void sha256_blocks(std::array<uint32_t, 8>& state, const uint8_t* blocks, size_t count,
                   bool allow_instructions = true);

}  // namespace composer

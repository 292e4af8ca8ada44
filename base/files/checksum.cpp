#include "base/files/checksum.h"

#include <zlib.h>

#include <array>

namespace composer {
namespace {

constexpr auto kCrc32cTable = [] {
  constexpr uint32_t polynomial = 0x82f63b78;  // reflected
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t sum = byte;
    for (int bit = 0; bit < 8; ++bit) sum = sum >> 1 ^ (sum & 1 ? polynomial : 0);
    table[byte] = sum;
  }
  return table;
}();

}  // namespace

void Checksum::add(std::span<const uint8_t> bytes) {
  bytes_ += bytes.size();
  crc32_ = static_cast<uint32_t>(::crc32_z(crc32_, bytes.data(), bytes.size()));
}

uint32_t crc32c(std::string_view bytes) {
  uint32_t sum = ~0u;
  for (const char byte : bytes)
    sum = sum >> 8 ^ kCrc32cTable[(sum ^ static_cast<uint8_t>(byte)) & 0xff];
  return ~sum;
}

}  // namespace composer

#include "base/files/checksum.h"

#include <zlib.h>

namespace composer {

void Checksum::add(std::span<const uint8_t> bytes) {
  bytes_ += bytes.size();
  crc32_ = static_cast<uint32_t>(::crc32_z(crc32_, bytes.data(), bytes.size()));
}

}  // namespace composer

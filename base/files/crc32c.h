// CRC-32C (Castagnoli), the checksum of TensorFlow's record files.
#pragma once

#include <cstdint>
#include <string_view>

namespace composer {

uint32_t crc32c(std::string_view bytes);

}  // namespace composer

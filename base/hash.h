// The hash of bytes in names and versions, which stays the same everywhere.
#pragma once

#include <cstdint>
#include <string_view>

namespace composer {

/// FNV-1a with 64 bits. hash: of the bytes before these.
constexpr uint64_t fnv1a(std::string_view bytes, uint64_t hash = 0xCBF29CE484222325u) {
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001B3u;
  return hash;
}

}  // namespace composer

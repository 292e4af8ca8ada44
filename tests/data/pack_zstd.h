// What zstd makes of bytes.
#pragma once

#include <zstd.h>

#include <string>
#include <string_view>

namespace composer::test {

inline std::string pack_zstd(std::string_view bytes) {
  std::string packed(ZSTD_compressBound(bytes.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), bytes.data(), bytes.size(), 3));
  return packed;
}

}  // namespace composer::test

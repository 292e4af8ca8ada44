// A PNG file back into pixels, of the kind that png() writes.
#pragma once

#include <zlib.h>

#include <catch2/catch.hpp>
#include <string>

#include "composer/logging/records.h"

namespace composer {

inline uint32_t big_endian(const std::string& bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<uint8_t>(bytes.at(at + i));
  return value;
}

/// Checks the sums on the way.
inline LoggedImage unpacked_png(const std::string& file) {
  REQUIRE(file.substr(0, 8) == "\x89PNG\r\n\x1a\n");
  std::string header, packed, last;
  for (size_t at = 8; at < file.size();) {
    const auto size = big_endian(file, at);
    const auto* summed = reinterpret_cast<const Bytef*>(file.data() + at + 4);
    REQUIRE(big_endian(file, at + 8 + size) == crc32(0, summed, size + 4));
    last = file.substr(at + 4, 4);
    if (last == "IHDR") header = file.substr(at + 8, size);
    if (last == "IDAT") packed += file.substr(at + 8, size);
    at += 12 + size;
  }
  REQUIRE(last == "IEND");
  LoggedImage image;
  image.width = big_endian(header, 0), image.height = big_endian(header, 4);
  image.channels = header.at(9) == 0 ? 1 : header.at(9) == 2 ? 3 : 4;
  const auto row = static_cast<size_t>(image.width * image.channels);
  std::string bytes((row + 1) * static_cast<size_t>(image.height), '\0');
  auto size = static_cast<uLongf>(bytes.size());
  REQUIRE(uncompress(reinterpret_cast<Bytef*>(bytes.data()), &size,
                     reinterpret_cast<const Bytef*>(packed.data()),
                     static_cast<uLong>(packed.size())) == Z_OK);
  REQUIRE(size == bytes.size());
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i % (row + 1) == 0) {
      REQUIRE(bytes[i] == 1);
      continue;
    }
    const auto left = static_cast<size_t>(image.channels);
    const bool first = i % (row + 1) <= left;
    const int before = first ? 0 : image.pixels.at(image.pixels.size() - left);
    image.pixels.push_back(static_cast<uint8_t>(before + bytes[i]));
  }
  return image;
}

}  // namespace composer

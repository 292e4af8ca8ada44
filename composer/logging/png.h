// Encodes and writes PNG files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "composer/logging/records.h"

namespace composer {

/// The bytes of a PNG file with 8 bits per channel. channels: 1 (gray), 3 (RGB) or 4 (RGBA);
/// pixels: [height, width, channels]. std::invalid_argument if the arguments do not fit together.
std::string png(int64_t height, int64_t width, int64_t channels, std::span<const uint8_t> pixels);

inline std::string png(const LoggedImage& image) {
  return png(image.height, image.width, image.channels, image.pixels);
}

/// Writes the result of png(), without flushing it to the disk. RunError if that fails.
void write_png(const std::filesystem::path& file, const std::string& bytes);

}  // namespace composer

// Writes PNG files, for pictures that others look at.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "composer/logging/records.h"

namespace composer {

/// A whole PNG file of 8 bits a channel. channels: 1 (gray), 3 (RGB) or 4 (RGB and opacity);
/// pixels: [height, width, channels]. std::invalid_argument where these do not fit together.
std::string png(int64_t height, int64_t width, int64_t channels, std::span<const uint8_t> pixels);

inline std::string png(const LoggedImage& image) {
  return png(image.height, image.width, image.channels, image.pixels);
}

/// Writes what png() gave; what a crash of the machine may take. RunError where that fails.
void write_png(const std::filesystem::path& file, const std::string& bytes);

}  // namespace composer

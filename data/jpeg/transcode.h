// JPEG streams taken over without decoding to pixels: as they are, or rewritten with the same DCT
// coefficients, upright.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "data/pixels/image.h"

namespace composer {

/// The first image of the data, end marker included; what follows it (other images, junk) is left
/// out. All the data when there is no end marker. The data begin with a whole JPEG header.
std::span<const uint8_t> first_jpeg(std::span<const uint8_t> bytes);

/// Whether nothing but restart markers stands between the header of the first scan and the stream's
/// last two bytes. (Costs a search for markers; codes are not looked at.)
bool has_one_whole_scan(std::span<const uint8_t> stream);

/// A baseline stream in one scan that holds the image of `bytes`, turned upright: progressive,
/// arithmetic and non-interleaved streams keep every coefficient; a turned one has its blocks
/// moved and turned, which decodes to the turned pixels but for the rounding of the inverse DCT
/// and of chroma upsampling. Application segments (EXIF, colour profiles) are left out.
/// orientation: EXIF's, 1..8.
/// Nothing when that is not possible without loss: other than 1 or 3 components of 8 bits, a
/// mirrored side that is no multiple of the MCU, scans missing, damage. The reason is found by
/// decoding.
std::optional<std::vector<uint8_t>> transcode_jpeg(std::span<const uint8_t> bytes, int orientation);

}  // namespace composer

// Takes over JPEG streams without decoding them to pixels: as they are, or rewritten with the same
// DCT coefficients, upright.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "data/pixels/image.h"

namespace composer {

/// The first image of the data, end marker included, without the data that follow (other images,
/// junk). All the data without an end marker. The data must begin with a whole JPEG header.
std::span<const uint8_t> first_jpeg(std::span<const uint8_t> bytes);

/// Whether only codes and restart markers lie between the header of the first scan and the end
/// marker in the last two bytes. Searches for markers, and does not decode.
bool has_one_whole_scan(std::span<const uint8_t> stream);

/// A baseline stream in one scan that holds the image of `bytes`, turned upright: progressive,
/// arithmetic and non-interleaved streams keep every coefficient; a turned one has its blocks
/// moved and turned, which decodes to the turned pixels but for the rounding of the inverse DCT
/// and of chroma upsampling. Application segments (EXIF, colour profiles) are left out.
/// orientation: EXIF's, 1..8.
/// Nothing when that is impossible without loss: other than 1 or 3 components of 8 bits, a mirrored
/// side that is no multiple of the MCU, missing scans, damage. Decoding the stream tells the
/// reason.
std::optional<std::vector<uint8_t>> transcode_jpeg(std::span<const uint8_t> bytes, int orientation);

}  // namespace composer

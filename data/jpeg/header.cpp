#include "data/jpeg/header.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/error.h"
#include "data/pixels/image.h"

namespace composer {
namespace {

using Bytes = std::span<const uint8_t>;

[[noreturn]] void refuse(const std::string& reason) { throw RunError("broken JPEG: " + reason); }

[[noreturn]] void too_short() {
  throw RunError("the JPEG data end too early (in the headers before the image)");
}

/// Numbers of a TIFF block, in its byte order; 0 beyond the end.
struct Tiff {
  Bytes bytes;
  bool little = false;

  uint32_t number(size_t at, int size) const {
    if (at > bytes.size() || bytes.size() - at < static_cast<size_t>(size)) return 0;
    uint32_t value = 0;
    for (int i = 0; i < size; ++i)
      value |= uint32_t{bytes[at + static_cast<size_t>(i)]} << 8 * (little ? i : size - 1 - i);
    return value;
  }
};

/// Whether an APP1 segment or a block begins with EXIF's name.
bool has_exif_name(Bytes segment) {
  static constexpr char kName[] = "Exif\0";  // and the literal's own 0: six bytes
  return segment.size() >= 6 && std::memcmp(segment.data(), kName, 6) == 0;
}

void read_frame(uint8_t marker, Bytes segment, JpegHeader& header) {
  if (segment.size() < 6) refuse("its frame header is too short");
  header.precision = segment[0];
  header.size = {segment[1] << 8 | segment[2], segment[3] << 8 | segment[4]};
  header.components = segment[5];
  header.baseline = (marker == kSof0 || marker == kSof1) && header.precision == 8;
  const auto [height, width] = header.size;
  const std::string pixels = size_text(header.size) + " pixels";
  if (height == 0 || width == 0) refuse("an image of " + pixels);
  if (height * width > kMaxPixels) refuse(pixels + " are too many");
  if (header.components != 1 && header.components != 3 && header.components != 4) {
    refuse(std::to_string(header.components) +
           " colour components; only 1, 3 and 4 have a meaning");
  }
  if (segment.size() != 6 + 3 * static_cast<size_t>(header.components))
    refuse("the length of its frame header does not fit its components");
}

bool is_frame(uint8_t marker) {
  return marker >= kSof0 && marker <= kSof15 && marker != kDht && marker != kJpg && marker != kDac;
}

}  // namespace

uint8_t next_marker(Bytes bytes, size_t& at) {
  while (at < bytes.size()) {
    const void* found = std::memchr(bytes.data() + at, 0xFF, bytes.size() - at);
    if (found == nullptr) break;
    at = static_cast<size_t>(static_cast<const uint8_t*>(found) - bytes.data());
    while (at < bytes.size() && bytes[at] == 0xFF) ++at;
    if (at < bytes.size() && bytes[at++] != 0) return bytes[at - 1];
  }
  at = bytes.size();
  return 0;
}

int exif_orientation(Bytes block) {
  if (has_exif_name(block)) block = block.subspan(6);
  if (block.size() < 8) return 0;
  Tiff tiff{block};
  tiff.little = tiff.bytes[0] == 'I';
  if (tiff.bytes[0] != tiff.bytes[1] || (!tiff.little && tiff.bytes[0] != 'M')) return 0;
  if (tiff.number(2, 2) != 42) return 0;
  const size_t directory = tiff.number(4, 4);
  const size_t entries = tiff.number(directory, 2);
  for (size_t i = 0; i < entries; ++i) {
    const size_t entry = directory + 2 + 12 * i;
    if (entry > tiff.bytes.size()) break;
    constexpr uint32_t kOrientation = 0x0112, kShort = 3, kLong = 4;
    const uint32_t type = tiff.number(entry + 2, 2);
    if (tiff.number(entry, 2) != kOrientation || (type != kShort && type != kLong)) continue;
    const uint32_t value = tiff.number(entry + 8, type == kShort ? 2 : 4);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 0;
  }
  return 0;
}

JpegHeader read_jpeg_header(std::span<const uint8_t> bytes) {
  if (bytes.size() < 2 || bytes[0] != 0xFF || bytes[1] != kSoi) refuse("it does not start as JPEG");
  JpegHeader header;
  bool found = false, rotated = false;
  size_t at = 2;
  while (const uint8_t marker = next_marker(bytes, at)) {
    if (marker == kTem || (marker >= kRst0 && marker <= kRst7)) continue;
    if (marker == kSoi) refuse("a second start marker");
    if (marker == kEoi || marker == kSos) break;
    if (bytes.size() - at < 2) {
      at = bytes.size();
      break;
    }
    const size_t length = std::max(2, bytes[at] << 8 | bytes[at + 1]);
    if (length > bytes.size() - at) {
      if (found) break;
      too_short();
    }
    const auto segment = bytes.subspan(at + 2, length - 2);
    if (is_frame(marker)) {
      if (found) refuse("a second frame header");
      read_frame(marker, segment, header);
      found = true;
    }
    if (marker == kApp1 && !rotated && has_exif_name(segment)) {
      const int orientation = exif_orientation(segment);
      rotated = orientation != 0;
      if (rotated) header.orientation = orientation;
    }
    at += length;
  }
  if (found) return header;
  if (at >= bytes.size()) too_short();
  refuse("no frame header before the image's data");
}

}  // namespace composer

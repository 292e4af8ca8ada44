#include "data/jpeg/scan.h"

#include <algorithm>
#include <cstring>

#include "data/jpeg/header.h"
#include "data/jpeg/natural_order.h"

namespace composer {
namespace {

/// libjpeg reads no more bytes of an APP0 or APP14 segment.
constexpr size_t kLookedAt = 14;

}  // namespace

void put_jpeg_size(ImageSize size, uint8_t* at) {
  at[0] = static_cast<uint8_t>(size.height >> 8), at[1] = static_cast<uint8_t>(size.height);
  at[2] = static_cast<uint8_t>(size.width >> 8), at[3] = static_cast<uint8_t>(size.width);
}

bool JpegScan::parse(std::span<const uint8_t> bytes) {
  if (bytes.size() < 4 || bytes[0] != 0xFF || bytes[1] != kSoi) return false;
  components = 0;
  dc_tables.fill({}), ac_tables.fill({}), quantization_.fill({});
  jfif_ = adobe_ = false, plain_ = true;
  chroma_step = 0;
  header.assign({0xFF, kSoi});
  for (size_t at = 2;;) {
    // libjpeg warns of junk between segments.
    if (bytes.size() - at < 4 || bytes[at] != 0xFF) return false;
    const uint8_t marker = bytes[at + 1];
    if (marker == 0xFF) {
      ++at;
      continue;
    }
    const size_t length = static_cast<size_t>(bytes[at + 2]) << 8 | bytes[at + 3];
    if (length < 2 || length > bytes.size() - at - 2) return false;
    const auto segment = bytes.subspan(at + 4, length - 2);
    at += 2 + length;
    if (marker == kSos) {
      codes = bytes.subspan(at);
      return take_scan(segment) &&
             size.height * size.width <= kMostHuffmanPixels * static_cast<int64_t>(codes.size());
    }
    if (!take(marker, segment)) return false;
  }
}

bool JpegScan::take(uint8_t marker, std::span<const uint8_t> segment) {
  switch (marker) {
    case kSof0:
    case kSof1:
      return take_frame(segment);
    case kDht:
      return take_tables(segment);
    case kDqt:
      keep(marker, segment);
      take_quantization(segment);
      return true;
    case kDri:
      return segment.size() == 2 && segment[0] == 0 && segment[1] == 0;
    case kApp0:
    case kApp14:
      keep(marker, segment.first(std::min(segment.size(), kLookedAt)));
      take_application(marker, segment);
      return true;
    default:
      return marker == kCom || (marker > kApp0 && marker <= kApp15);
  }
}

void JpegScan::keep(uint8_t marker, std::span<const uint8_t> segment) {
  const size_t length = segment.size() + 2;
  header.insert(header.end(),
                {0xFF, marker, static_cast<uint8_t>(length >> 8), static_cast<uint8_t>(length)});
  header.insert(header.end(), segment.begin(), segment.end());
}

bool JpegScan::take_frame(std::span<const uint8_t> segment) {
  if (components != 0 || segment.size() < 6 || segment[0] != 8) return false;
  size = {segment[1] << 8 | segment[2], segment[3] << 8 | segment[4]};
  components = segment[5];
  if (components != 1 && components != 3) return false;
  if (segment.size() != 6 + 3 * static_cast<size_t>(components)) return false;
  if (size.height == 0 || size.width == 0 || size.height * size.width > kMaxPixels) return false;
  size_at_ = header.size() + 5;
  keep(kSof0, segment);
  int across = 1, down = 1;
  blocks = 0;
  for (int i = 0; i < components; ++i) {
    const uint8_t* at = segment.data() + 6 + 3 * i;
    Component& c = component_[static_cast<size_t>(i)];
    c = {at[0], static_cast<uint8_t>(at[1] >> 4), static_cast<uint8_t>(at[1] & 15), at[2]};
    if (c.horizontal < 1 || c.horizontal > 4 || c.vertical < 1 || c.vertical > 4) return false;
    for (int j = 0; j < i; ++j)
      if (component_[static_cast<size_t>(j)].id == c.id) return false;
    // In a scan of one component an MCU is one block, whatever the sampling factors.
    if (components == 1) c.horizontal = c.vertical = 1;
    across = std::max<int>(across, c.horizontal), down = std::max<int>(down, c.vertical);
    blocks += c.horizontal * c.vertical;
  }
  if (components == 1) header[header.size() - 2] = 0x11;
  if (blocks > static_cast<int>(block.size())) return false;
  mcu_width = 8 * across, mcu_height = 8 * down;
  mcus_across = (size.width + mcu_width - 1) / mcu_width;
  mcu_rows = (size.height + mcu_height - 1) / mcu_height;
  return true;
}

/// Takes tables of 8 bits; libjpeg decodes images with others.
void JpegScan::take_quantization(std::span<const uint8_t> segment) {
  constexpr size_t kTable = 1 + 64;
  plain_ = plain_ && segment.size() % kTable == 0;
  for (; plain_ && !segment.empty(); segment = segment.subspan(kTable)) {
    plain_ = segment[0] < quantization_.size();
    if (plain_) quantization_[segment[0]] = segment.subspan(1, 64);
  }
}

void JpegScan::take_application(uint8_t marker, std::span<const uint8_t> segment) {
  static constexpr char kJfif[] = "JFIF", kAdobe[] = "Adobe";
  if (marker == kApp0 && segment.size() >= 14 && std::memcmp(segment.data(), kJfif, 5) == 0) {
    jfif_ = true;
    plain_ = plain_ && segment[5] == 1;  // libjpeg warns of other versions
  }
  if (marker == kApp14 && segment.size() >= 12 && std::memcmp(segment.data(), kAdobe, 5) == 0)
    adobe_ = true;
}

int JpegScan::find_chroma_step() {
  const auto& [luma, blue, red] = component_;
  const auto sampled = [](const Component& c, int factor) {
    return c.horizontal == factor && c.vertical == factor;
  };
  const bool ids = luma.id == 1 && blue.id == 2 && red.id == 3;
  if (!plain_ || components != 3 || !ids || (adobe_ && !jfif_)) return 0;
  if (!sampled(luma, 2) && !sampled(luma, 1)) return 0;
  if (!sampled(blue, 1) || !sampled(red, 1)) return 0;
  constexpr int64_t kLongest = 65500;  // libjpeg's
  if (std::max(size.height, size.width) > kLongest) return 0;
  for (size_t i = 0; i < 3; ++i) {
    if (component_[i].quantization >= quantization_.size()) return 0;
    const auto table = quantization_[component_[i].quantization];
    if (table.empty()) return 0;
    for (size_t k = 0; k < 64; ++k) quantization[i][kNatural.at[k + 1]] = table[k];
  }
  return luma.horizontal;
}

bool JpegScan::take_tables(std::span<const uint8_t> segment) {
  while (!segment.empty()) {
    if (segment.size() < 17) return false;
    const uint8_t kind = segment[0];
    size_t symbols = 0;
    for (size_t i = 1; i <= 16; ++i) symbols += segment[i];
    if (kind >> 4 > 1 || (kind & 15) > 3 || symbols > 256 || segment.size() < 17 + symbols)
      return false;
    (kind >> 4 == 0 ? dc_tables : ac_tables)[kind & 15] = segment.subspan(1, 16 + symbols);
    segment = segment.subspan(17 + symbols);
  }
  return true;
}

bool JpegScan::take_scan(std::span<const uint8_t> segment) {
  const auto count = static_cast<size_t>(components);
  if (count == 0 || segment.size() != 4 + 2 * count || segment[0] != count) return false;
  const uint8_t* spectral = segment.data() + 1 + 2 * count;
  if (spectral[0] != 0 || spectral[1] != 63 || spectral[2] != 0) return false;
  keep(kSos, segment);
  uint8_t* kept = header.data() + header.size() - segment.size();
  size_t next = 0;
  for (size_t i = 0; i < count; ++i) {
    const uint8_t* at = segment.data() + 1 + 2 * i;
    const auto dc = static_cast<uint8_t>(at[1] >> 4), ac = static_cast<uint8_t>(at[1] & 15);
    if (at[0] != component_[i].id || dc > 3 || ac > 3) return false;
    if (dc_tables[dc].empty() || ac_tables[ac].empty()) return false;
    const int here = component_[i].horizontal * component_[i].vertical;
    for (int j = 0; j < here; ++j) block[next++] = {static_cast<uint8_t>(i), dc, ac};
    kept[2 + 2 * i] = 0;  // libjpeg's own tables, never used
  }
  chroma_step = find_chroma_step();
  return true;
}

}  // namespace composer

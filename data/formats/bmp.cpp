#include <algorithm>
#include <array>
#include <bit>
#include <string>
#include <vector>

#include "base/files/byte_reader.h"
#include "data/formats/formats.h"

namespace composer {
namespace {

using Colour = std::array<uint8_t, 3>;

constexpr uint32_t kFileHeaderBytes = 14;
constexpr uint32_t kCoreHeader = 12;  // length of OS/2 1's header

enum Compression : uint32_t { kPlain = 0, kRle8 = 1, kRle4 = 2, kMasks = 3 };

constexpr FormatErrors kBmp{"BMP"};

struct Header {
  uint32_t bytes = 0;   ///< length of the second header
  uint32_t pixels = 0;  ///< offset in the file
  int64_t width = 0, height = 0;
  bool top_down = false;
  uint32_t bits = 0;
  uint32_t compression = kPlain;
  uint32_t colours = 0;
  std::array<uint32_t, 3> masks{};  ///< masks of red, green and blue; all 0 without masks

  bool run_length() const { return compression == kRle8 || compression == kRle4; }
  int64_t row_bytes() const { return (width * bits + 31) / 32 * 4; }
};

void read_core_size(ByteReader& reader, Header& header) {  // OS/2 1
  header.width = reader.number<uint16_t>();
  header.height = reader.number<uint16_t>();
  reader.number<uint16_t>();  // planes
  header.bits = reader.number<uint16_t>();
}

void read_info(ByteReader& reader, Header& header) {
  header.width = reader.number<int32_t>();
  header.height = reader.number<int32_t>();
  header.top_down = header.height < 0;
  header.height = std::abs(header.height);
  reader.number<uint16_t>();  // planes
  header.bits = reader.number<uint16_t>();
  header.compression = reader.number<uint32_t>();
  reader.take(3 * sizeof(uint32_t));  // bytes of the pixels, resolution
  header.colours = reader.number<uint32_t>();
  reader.number<uint32_t>();  // important colours
  // The masks follow the shortest header; longer ones contain them.
  if (header.compression != kMasks) return;
  for (uint32_t& mask : header.masks) mask = reader.number<uint32_t>();
}

void check(const Header& header) {
  kBmp.check_size(header.height, header.width);
  constexpr uint32_t kDepths[] = {1, 4, 8, 16, 24, 32};
  if (std::ranges::find(kDepths, header.bits) == std::end(kDepths))
    kBmp.unsupported(std::to_string(header.bits) + " bits a pixel");
  const bool fits = header.compression == kPlain ||
                    (header.compression == kRle8 && header.bits == 8) ||
                    (header.compression == kRle4 && header.bits == 4) ||
                    (header.compression == kMasks && header.bits >= 16);
  if (!fits) {
    kBmp.unsupported("compression " + std::to_string(header.compression) + " of " +
                     std::to_string(header.bits) + " bits a pixel");
  }
}

Header read_header(ByteReader& reader) {
  Header header;
  reader.take(10);  // BM, the file's size, reserved
  header.pixels = reader.number<uint32_t>();
  header.bytes = reader.number<uint32_t>();
  constexpr uint32_t kInfoHeaders[] = {40, 52, 56, 64, 108, 124};
  if (header.bytes == kCoreHeader)
    read_core_size(reader, header);
  else if (std::ranges::find(kInfoHeaders, header.bytes) != std::end(kInfoHeaders))
    read_info(reader, header);
  else
    kBmp.refuse("a header of " + std::to_string(header.bytes) + " bytes");
  if (header.pixels < kFileHeaderBytes + header.bytes)
    kBmp.refuse("its pixels begin in its header");
  check(header);
  return header;
}

/// Colours that are missing in the file are black.
std::vector<Colour> read_palette(std::span<const uint8_t> bytes, Header& header) {
  std::vector<Colour> palette(256);
  if (header.bits > 8) return palette;
  const uint32_t begin = kFileHeaderBytes + header.bytes;
  const uint32_t each = header.bytes == kCoreHeader ? 3 : 4;
  const uint32_t most = 1U << header.bits;
  if (header.colours == 0) header.colours = most;
  // Some writers forget the palette in the offset of the pixels.
  const uint64_t palette_bytes = uint64_t{each} * header.colours;
  if (header.pixels == begin && begin + palette_bytes <= bytes.size())
    header.pixels += static_cast<uint32_t>(palette_bytes);
  ByteReader reader(bytes, begin);
  for (uint32_t i = 0; i < std::min(header.colours, most); ++i) {
    const auto entry = reader.take(each);
    palette[i] = {entry[2], entry[1], entry[0]};
  }
  return palette;
}

/// The bits of one channel in a pixel.
struct Channel {
  unsigned shift = 0;
  uint32_t most = 0;

  explicit Channel(uint32_t mask) {
    if (mask == 0) return;
    shift = static_cast<unsigned>(std::countr_zero(mask));
    most = mask >> shift;
    if ((most & (most + 1)) != 0) kBmp.refuse("a channel's bits do not lie together");
  }
  uint8_t of(uint32_t pixel) const {
    if (most == 0) return 0;
    return static_cast<uint8_t>(uint64_t{pixel >> shift & most} * 255 / most);
  }
};

std::array<Channel, 3> channels_of(const Header& header) {
  auto masks = header.masks;
  if (masks == std::array<uint32_t, 3>{}) {
    masks = header.bits == 16 ? std::array<uint32_t, 3>{0x7C00, 0x3E0, 0x1F}
                              : std::array<uint32_t, 3>{0xFF0000, 0xFF00, 0xFF};
  }
  return {Channel(masks[0]), Channel(masks[1]), Channel(masks[2])};
}

void convert_row(const uint8_t* row, const Header& header, const std::array<Channel, 3>& channels,
                 uint8_t* out) {
  const uint32_t bytes = header.bits / 8;
  for (int64_t x = 0; x < header.width; ++x, row += bytes, out += 3) {
    uint32_t pixel = 0;
    for (uint32_t i = 0; i < bytes; ++i) pixel |= uint32_t{row[i]} << 8 * i;
    for (size_t c = 0; c < 3; ++c) out[c] = channels[c].of(pixel);
  }
}

void look_up_row(const uint8_t* row, const Header& header, const std::vector<Colour>& palette,
                 uint8_t* out) {
  const uint32_t in_byte = 8 / header.bits, mask = (1U << header.bits) - 1;
  for (uint32_t x = 0; x < header.width; ++x, out += 3) {
    const uint32_t shift = 8 - header.bits * (x % in_byte + 1);
    const Colour& colour = palette[row[x / in_byte] >> shift & mask];
    std::copy(colour.begin(), colour.end(), out);
  }
}

/// Run-length codes to a byte a pixel, rows in the order of the file. Pixels without a code have
/// colour 0.
class RunLength {
 public:
  RunLength(std::span<const uint8_t> codes, const Header& header)
      : codes_(codes),
        four_bits_(header.compression == kRle4),
        width_(header.width),
        height_(header.height),
        pixels_(static_cast<size_t>(header.width * header.height)) {}

  std::vector<uint8_t> decode() {
    while (y_ < height_) {
      const auto count = codes_.number<uint8_t>(), code = codes_.number<uint8_t>();
      if (count > 0) {
        for (int i = 0; i < count; ++i) put(four_bits_ ? half(code, i) : code);
      } else if (code == 0) {
        x_ = 0, ++y_;
      } else if (code == 1) {
        break;
      } else if (code == 2) {
        x_ += codes_.number<uint8_t>();
        y_ += codes_.number<uint8_t>();
      } else if (!copy(code)) {
        break;
      }
      if (y_ == height_ - 1 && x_ >= width_) break;
    }
    return std::move(pixels_);
  }

 private:
  static uint8_t half(uint8_t byte, int i) {
    return static_cast<uint8_t>(i % 2 == 0 ? byte >> 4 : byte & 15);
  }

  /// Ignores pixels beyond the end of the row.
  void put(uint8_t value) {
    if (x_ < width_) pixels_[static_cast<size_t>(y_ * width_ + x_++)] = value;
  }

  /// Copies literal pixels, which are padded to a multiple of two bytes. False at the image's end,
  /// where the padding may be missing.
  bool copy(int count) {
    const int bytes = four_bits_ ? (count + 1) / 2 : count;
    const auto literal = codes_.take(static_cast<uint64_t>(bytes));
    for (int i = 0; i < count; ++i) {
      put(four_bits_ ? half(literal[static_cast<size_t>(i / 2)], i)
                     : literal[static_cast<size_t>(i)]);
    }
    if (y_ == height_ - 1 && x_ >= width_) return false;
    if (bytes % 2 != 0) codes_.number<uint8_t>();
    return true;
  }

  ByteReader codes_;
  bool four_bits_;
  int64_t width_, height_, x_ = 0, y_ = 0;
  std::vector<uint8_t> pixels_;
};

/// Row y from the top; rows: in the order of the file, `stride` bytes each.
const uint8_t* stored_row(const uint8_t* rows, const Header& header, int64_t stride, int64_t y) {
  return rows + (header.top_down ? y : header.height - 1 - y) * stride;
}

void read_runs(std::span<const uint8_t> codes, const Header& header,
               const std::vector<Colour>& palette, Image& out) {
  constexpr size_t kMostPixels = 128;  // two bytes code at most 255 pixels
  if (static_cast<size_t>(header.height * header.width) / kMostPixels > codes.size())
    kBmp.refuse("the data end too early");
  const auto indices = RunLength(codes, header).decode();
  Header bytes = header;
  bytes.bits = 8;
  out.resize(header.height, header.width, 3);
  for (int64_t y = 0; y < header.height; ++y)
    look_up_row(stored_row(indices.data(), header, header.width, y), bytes, palette, out.row(y));
}

void read_rows(std::span<const uint8_t> rows, const Header& header,
               const std::vector<Colour>& palette, Image& out) {
  const auto channels = channels_of(header);
  const int64_t stride = header.row_bytes();
  if (static_cast<int64_t>(rows.size()) < header.height * stride)
    kBmp.refuse("the data end too early");
  out.resize(header.height, header.width, 3);
  for (int64_t y = 0; y < header.height; ++y) {
    const uint8_t* row = stored_row(rows.data(), header, stride, y);
    if (header.bits <= 8)
      look_up_row(row, header, palette, out.row(y));
    else
      convert_row(row, header, channels, out.row(y));
  }
}

}  // namespace

void decode_bmp(std::span<const uint8_t> bytes, Image& out) {
  try {
    ByteReader reader(bytes);
    Header header = read_header(reader);
    const auto palette = read_palette(bytes, header);
    if (header.pixels > bytes.size()) kBmp.refuse("the data end too early");
    const auto pixels = bytes.subspan(header.pixels);
    if (header.run_length())
      read_runs(pixels, header, palette, out);
    else
      read_rows(pixels, header, palette, out);
  } catch (const FormatError&) {
    kBmp.refuse("the data end too early");
  }
}

}  // namespace composer

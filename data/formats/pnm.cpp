#include <cmath>
#include <string>
#include <vector>

#include "data/formats/formats.h"

namespace composer {
namespace {

constexpr FormatErrors kPnm{"PNM"};

bool is_space(uint8_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

class Reader {
 public:
  explicit Reader(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  uint8_t byte() {
    if (at_ >= bytes_.size()) kPnm.refuse("the data end too early");
    return bytes_[at_++];
  }

  /// The next decimal number. Skips the spaces and comments before it and the byte behind it.
  int64_t number(int64_t most) {
    const uint8_t first = skip_to_text();
    int64_t value = 0;
    uint8_t c = first;
    for (;;) {
      if (c < '0' || c > '9') kPnm.refuse("a number is expected where something else stands");
      value = value * 10 + (c - '0');
      if (value > most) kPnm.refuse("a number above " + std::to_string(most));
      if (at_ >= bytes_.size()) return value;
      c = byte();
      if (is_space(c)) return value;
    }
  }

  /// A text bitmap's 0 or 1: spaces between them may be missing.
  int64_t bit() {
    const uint8_t c = skip_to_text();
    if (c != '0' && c != '1') kPnm.refuse("a bit is expected where something else stands");
    return c - '0';
  }

  size_t left() const { return bytes_.size() - at_; }

 private:
  uint8_t skip_to_text() {
    uint8_t c = byte();
    while (is_space(c) || c == '#') {
      if (c == '#')
        while (c != '\n' && c != '\r') c = byte();
      else
        c = byte();
    }
    return c;
  }

  std::span<const uint8_t> bytes_;
  size_t at_ = 2;
};

struct Layout {
  int kind;             ///< the digit after P
  int64_t highest = 1;  ///< largest sample

  bool text() const { return kind <= 3; }
  bool bitmap() const { return kind == 1 || kind == 4; }
  int64_t channels() const { return kind == 3 || kind == 6 ? 3 : 1; }
  int64_t sample_bytes() const { return highest > 255 ? 2 : 1; }
};

/// The fewest bytes that an image of this size can have.
int64_t least_bytes(const Layout& layout, int64_t height, int64_t width) {
  if (layout.kind == 4) return height * ((width + 7) / 8);
  if (layout.kind == 1) return height * width;
  const int64_t samples = height * width * layout.channels();
  return layout.text() ? 2 * samples - 1 : samples * layout.sample_bytes();
}

void read_bit_row(Reader& reader, bool text, int64_t width, uint8_t* out) {
  uint8_t bits = 0;
  for (int64_t x = 0; x < width; ++x) {
    if (!text && x % 8 == 0) bits = reader.byte();
    const bool black = text ? reader.bit() != 0 : (bits << (x % 8) & 0x80) != 0;
    for (int c = 0; c < 3; ++c) *out++ = black ? 0 : 255;
  }
}

void read_sample_row(Reader& reader, const Layout& layout, const std::vector<uint8_t>& scaled,
                     int64_t width, uint8_t* out) {
  const auto sample = [&] {
    int64_t value = 0;
    if (layout.text()) {
      value = reader.number(layout.highest);
    } else {
      value = reader.byte();
      if (layout.sample_bytes() == 2) value = value << 8 | reader.byte();
    }
    return scaled[static_cast<size_t>(std::min(value, layout.highest))];
  };
  for (int64_t x = 0; x < width; ++x, out += 3) {
    out[0] = sample();
    out[1] = layout.channels() == 3 ? sample() : out[0];
    out[2] = layout.channels() == 3 ? sample() : out[0];
  }
}

}  // namespace

void decode_pnm(std::span<const uint8_t> bytes, Image& out) {
  if (bytes.size() < 3 || bytes[0] != 'P' || bytes[1] < '1' || bytes[1] > '6')
    kPnm.refuse("it does not start with P1 to P6");
  Reader reader(bytes);
  Layout layout{bytes[1] - '0'};
  constexpr int64_t kMostSide = 1 << 24;
  const int64_t width = reader.number(kMostSide), height = reader.number(kMostSide);
  kPnm.check_size(height, width);
  if (!layout.bitmap()) layout.highest = reader.number(65535);
  if (layout.highest == 0) kPnm.refuse("its largest sample is 0");
  if (least_bytes(layout, height, width) > static_cast<int64_t>(reader.left()))
    kPnm.refuse("the data end too early");
  std::vector<uint8_t> scaled(static_cast<size_t>(layout.highest) + 1);
  for (size_t i = 0; i < scaled.size(); ++i) {
    const double part = static_cast<double>(i) / static_cast<double>(layout.highest);
    scaled[i] = static_cast<uint8_t>(std::nearbyint(part * 255));
  }
  out.resize(height, width, 3);
  for (int64_t y = 0; y < height; ++y)
    if (layout.bitmap())
      read_bit_row(reader, layout.text(), width, out.row(y));
    else
      read_sample_row(reader, layout, scaled, width, out.row(y));
}

}  // namespace composer

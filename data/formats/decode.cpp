#include "data/formats/decode.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "data/formats/formats.h"
#include "data/jpeg/header.h"
#include "data/jpeg/jpeg.h"
#include "data/pixels/orient.h"

namespace composer {
namespace {

using namespace std::literals;

bool is_pnm(std::string_view head) {
  return head.size() > 2 && head[0] == 'P' && head[1] >= '1' && head[1] <= '6' &&
         (head[2] == '#' || head[2] == ' ' || (head[2] >= '\t' && head[2] <= '\r'));
}

bool is_tiff(std::string_view head) {
  return head.starts_with("II*\0"sv) || head.starts_with("MM\0*"sv) ||
         head.starts_with("II+\0"sv) || head.starts_with("MM\0+"sv);
}

std::string_view unreadable_format(std::string_view head) {
  if (head.starts_with("P7\n")) return "a PAM";
  if (head.size() >= 12 && head.substr(4, 4) == "ftyp") return "an AVIF or HEIC";
  if (head.starts_with("\0\0\0\x0CjP  "sv)) return "a JPEG 2000";
  if (head.starts_with("8BPS")) return "a Photoshop";
  if (head.starts_with("v/1\x01")) return "an OpenEXR";
  if (head.starts_with("\0\0\0\x0CJXL "sv) || head.starts_with("\xFF\x0A")) return "a JPEG XL";
  return {};
}

/// A canvas may be larger than its frame without more bytes, up to this many pixels.
constexpr int64_t kBareCanvasPixels = int64_t{1} << 22;

void decode_upright_jpeg(std::span<const uint8_t> bytes, Image& out, std::string* warnings) {
  const JpegHeader header = read_jpeg_header(bytes);
  decode_jpeg(bytes, out, warnings);
  apply_orientation(out, header.orientation);
}

}  // namespace

void decode_image(std::span<const uint8_t> bytes, Image& out, std::string* warnings) {
  const std::string_view head(reinterpret_cast<const char*>(bytes.data()),
                              std::min<size_t>(bytes.size(), 16));
  if (head.empty()) throw RunError("the file is empty");
  if (head.starts_with("\xFF\xD8")) return decode_upright_jpeg(bytes, out, warnings);
  if (head.starts_with("\x89PNG\r\n\x1A\n")) return decode_png(bytes, out, warnings);
  if (head.starts_with("GIF87a") || head.starts_with("GIF89a")) return decode_gif(bytes, out);
  if (head.starts_with("RIFF") && head.size() >= 12 && head.substr(8, 4) == "WEBP")
    return decode_webp(bytes, out);
  if (is_pnm(head)) return decode_pnm(bytes, out);
  if (is_tiff(head)) return decode_tiff(bytes, out, warnings);
  if (head.starts_with("BM")) return decode_bmp(bytes, out);
  if (head.starts_with("\0\x05\x16\x07"sv))
    throw RunError("no image: an AppleDouble file, which macOS keeps beside another");
  const auto format = unreadable_format(head);
  throw RunError(format.empty()
                     ? "no image: none of " + std::string(kImageFormats) + " begins like this"
                     : std::string(format) + " image; " + kImageFormats + " can be read");
}

void FormatErrors::refuse(const std::string& reason) const {
  throw RunError(std::string("broken ") + format + ": " + reason);
}

void FormatErrors::unsupported(const std::string& what) const {
  throw RunError(std::string("a ") + format + " with " + what + ", which is not supported");
}

void FormatErrors::check_size(int64_t height, int64_t width) const {
  if (height <= 0 || width <= 0) refuse("an image without pixels");
  // The product may not fit: the sides of a TIFF have 32 bits.
  if (height > kMaxPixels / width) refuse(size_text({height, width}) + " pixels are too many");
}

void FormatErrors::check_canvas(ImageSize frame, ImageSize canvas, int64_t most) const {
  const int64_t limit = std::max(most, kBareCanvasPixels);
  if (frame == canvas || canvas.height * canvas.width <= limit) return;
  refuse("a frame of " + size_text(frame) + " on a canvas of " + size_text(canvas) + " pixels");
}

void to_gray(Image& image) {
  if (image.channels == 1) return;
  const uint8_t* rgb = image.pixels.data();
  for (int64_t i = 0, n = image.height * image.width; i < n; ++i, rgb += 3) {
    const uint32_t luma = rgb[0] * 19595u + rgb[1] * 38470u + rgb[2] * 7471u + 0x8000u;
    image.pixels[static_cast<size_t>(i)] = static_cast<uint8_t>(luma >> 16);
  }
  image.channels = 1;
}

}  // namespace composer

#include "data/decode.h"

#include <string_view>

#include "composer/error.h"
#include "data/jpeg.h"
#include "data/png.h"

namespace composer {
namespace {

using namespace std::literals;

std::string_view unreadable_format(std::string_view head) {
  if (head.starts_with("GIF8")) return "a GIF";
  if (head.starts_with("RIFF") && head.size() >= 12 && head.substr(8, 4) == "WEBP") return "a WebP";
  if (head.starts_with("BM")) return "a BMP";
  if (head.starts_with("II*\0"sv) || head.starts_with("MM\0*"sv)) return "a TIFF";
  if (head.size() > 2 && head[0] == 'P' && head[1] >= '1' && head[1] <= '7') return "a PNM";
  if (head.size() >= 12 && head.substr(4, 4) == "ftyp") return "an AVIF or HEIC";
  if (head.starts_with("\0\0\0\x0CjP  "sv)) return "a JPEG 2000";
  return {};
}

}  // namespace

void decode_image(std::span<const uint8_t> bytes, Image& out, std::string* warnings) {
  const std::string_view head(reinterpret_cast<const char*>(bytes.data()),
                              std::min<size_t>(bytes.size(), 16));
  if (head.starts_with("\xFF\xD8\xFF")) return decode_jpeg(bytes, out, warnings);
  if (head.starts_with("\x89PNG\r\n\x1A\n")) return decode_png(bytes, out, warnings);
  if (head.empty()) throw RunError("the file is empty");
  const auto format = unreadable_format(head);
  throw RunError(format.empty() ? "neither a JPEG nor a PNG image"
                                : std::string(format) + " image; only JPEG and PNG can be read");
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

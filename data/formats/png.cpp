#include <png.h>
#include <zlib.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "data/formats/formats.h"
#include "data/jpeg/header.h"
#include "data/pixels/orient.h"

namespace composer {
namespace {

constexpr size_t kMostRepetition = 1032;  // of deflate: two bits give 258 bytes

struct Decoder {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::span<const uint8_t> rest;
  std::vector<png_bytep> rows;
  char message[160] = "";
  char warning[160] = "";

  ~Decoder() { png_destroy_read_struct(&png, &info, nullptr); }
};

void keep(char (&where)[160], const char* text) { std::snprintf(where, sizeof where, "%s", text); }

void fail(png_structp png, png_const_charp text) {
  keep(static_cast<Decoder*>(png_get_error_ptr(png))->message, text);
  png_longjmp(png, 1);
}

void take_warning(png_structp png, png_const_charp text) {
  auto* decoder = static_cast<Decoder*>(png_get_error_ptr(png));
  if (decoder->warning[0] == '\0') keep(decoder->warning, text);
}

void read_bytes(png_structp png, png_bytep out, size_t count) {
  auto* decoder = static_cast<Decoder*>(png_get_io_ptr(png));
  if (count > decoder->rest.size()) png_error(png, "the data end too early");
  std::memcpy(out, decoder->rest.data(), count);
  decoder->rest = decoder->rest.subspan(count);
}

/// Called with the jump set: between here and libpng no object needs its destructor.
void decode_with(Decoder& d, Image& out) {
  png_set_read_fn(d.png, &d, read_bytes);
  // The compressed pixels have a checksum of their own, so a wrong checksum of the chunk alone
  // loses no pixel.
  png_set_crc_action(d.png, PNG_CRC_WARN_USE, PNG_CRC_DEFAULT);
  png_set_user_limits(d.png, 1 << 24, 1 << 24);
  // Texts and colour profiles are not unpacked.
  png_set_keep_unknown_chunks(d.png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  const size_t bytes = d.rest.size();
  png_read_info(d.png, d.info);
  const auto height = static_cast<int64_t>(png_get_image_height(d.png, d.info));
  const auto width = static_cast<int64_t>(png_get_image_width(d.png, d.info));
  if (height * width > kMaxPixels) png_error(d.png, "the image has too many pixels");
  if (png_get_rowbytes(d.png, d.info) * static_cast<size_t>(height) > bytes * kMostRepetition)
    png_error(d.png, "the data end too early");
  png_set_expand(d.png);
  png_set_strip_16(d.png);
  png_set_gray_to_rgb(d.png);
  png_set_strip_alpha(d.png);
  png_set_interlace_handling(d.png);
  png_read_update_info(d.png, d.info);
  if (png_get_rowbytes(d.png, d.info) != static_cast<size_t>(width) * 3)
    png_error(d.png, "unsupported pixel layout");
  out.resize(height, width, 3);
  d.rows.resize(static_cast<size_t>(height));
  for (int64_t y = 0; y < height; ++y) d.rows[static_cast<size_t>(y)] = out.row(y);
  png_read_image(d.png, d.rows.data());
}

/// Decodes the pixels in their stored orientation.
void decode_stored(std::span<const uint8_t> bytes, Image& out, std::string* warnings) {
  Decoder decoder;
  decoder.rest = bytes;
  decoder.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &decoder, fail, take_warning);
  if (decoder.png != nullptr) decoder.info = png_create_info_struct(decoder.png);
  if (decoder.info == nullptr) throw RunError("libpng does not start");
  if (setjmp(png_jmpbuf(decoder.png)) == 0)
    decode_with(decoder, out);
  else
    throw RunError("broken PNG: " + std::string(decoder.message));
  if (warnings != nullptr && decoder.warning[0] != '\0') *warnings += decoder.warning;
}

/// Inflates at most as many bytes as an EXIF text may have.
std::string inflated(std::string_view packed) {
  constexpr size_t kMost = size_t{1} << 18;
  std::string text(std::min(kMost, packed.size() * kMostRepetition), '\0');
  uLongf size = text.size();
  uncompress(reinterpret_cast<Bytef*>(text.data()), &size,
             reinterpret_cast<const Bytef*>(packed.data()), static_cast<uLong>(packed.size()));
  text.resize(std::min<size_t>(size, text.size()));
  return text;
}

void skip_behind(char c, std::string_view& text) {
  text.remove_prefix(std::min(text.find(c), text.size() - 1) + 1);
}

/// The text of a text chunk with EXIF, as ImageMagick writes it; else empty.
std::string exif_text(std::string_view type, std::string_view data) {
  const auto keyword = data.substr(0, data.find('\0'));
  if (keyword != "Raw profile type exif" && keyword != "Raw profile type APP1") return {};
  auto text = data.substr(std::min(keyword.size() + 1, data.size()));
  bool packed = type == "zTXt";
  if (packed) text.remove_prefix(std::min<size_t>(1, text.size()));  // skips the compression method
  if (type == "iTXt") {
    packed = text.starts_with('\1');
    text.remove_prefix(std::min<size_t>(2, text.size()));
    for (int i = 0; i < 2 && !text.empty(); ++i) skip_behind('\0', text);  // language, keyword
  }
  return packed ? inflated(text) : std::string(text);
}

/// The bytes written in hexadecimal behind the first three lines, which hold the text's kind and
/// length.
std::vector<uint8_t> bytes_in_hexadecimal(std::string_view text) {
  for (int i = 0; i < 3 && !text.empty(); ++i) skip_behind('\n', text);
  std::vector<uint8_t> bytes;
  int high = -1;
  for (const char c : text) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) continue;
    if (high >= 0) bytes.push_back(static_cast<uint8_t>(high * 16 + digit));
    high = high >= 0 ? -1 : digit;
  }
  return bytes;
}

/// The orientation in the chunks before or behind the pixels; 0 without one.
int orientation_of(std::span<const uint8_t> bytes) {
  constexpr size_t kSignature = 8, kAround = 12;  // a chunk's length, type and checksum
  const std::string_view all(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::string text;  // only the first such text is unpacked, which takes time
  for (size_t at = kSignature; all.size() - at >= kAround;) {
    const size_t length = png_get_uint_32(bytes.data() + at);
    if (length > all.size() - at - kAround) break;
    const auto type = all.substr(at + 4, 4), data = all.substr(at + 8, length);
    int found = 0;
    if (type == "eXIf")
      found = exif_orientation(bytes.subspan(at + 8, length));
    else if (text.empty() && (type == "tEXt" || type == "zTXt" || type == "iTXt"))
      text = exif_text(type, data), found = exif_orientation(bytes_in_hexadecimal(text));
    if (found != 0) return found;
    at += kAround + length;
  }
  return 0;
}

}  // namespace

void decode_png(std::span<const uint8_t> bytes, Image& out, std::string* warnings) {
  decode_stored(bytes, out, warnings);
  apply_orientation(out, orientation_of(bytes));
}

}  // namespace composer

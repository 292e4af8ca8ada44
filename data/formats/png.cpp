#include "data/formats/png.h"

#include <png.h>

#include <csetjmp>
#include <cstring>
#include <vector>

#include "composer/error.h"

namespace composer {
namespace {

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
  // The compressed pixels carry a checksum of their own; a wrong one of the chunk alone costs no
  // pixel.
  png_set_crc_action(d.png, PNG_CRC_WARN_USE, PNG_CRC_DEFAULT);
  png_set_user_limits(d.png, 1 << 24, 1 << 24);
  // Texts and colour profiles are not unpacked.
  png_set_keep_unknown_chunks(d.png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  const size_t bytes = d.rest.size();
  png_read_info(d.png, d.info);
  const auto height = static_cast<int64_t>(png_get_image_height(d.png, d.info));
  const auto width = static_cast<int64_t>(png_get_image_width(d.png, d.info));
  if (height * width > kMaxPixels) png_error(d.png, "the image has too many pixels");
  constexpr size_t kMostRepetition = 1032;  // of deflate: 258 bytes by two bits
  if (png_get_rowbytes(d.png, d.info) * static_cast<size_t>(height) > bytes * kMostRepetition) {
    png_error(d.png, "the data end too early");
  }
  png_set_expand(d.png);
  png_set_strip_16(d.png);
  png_set_gray_to_rgb(d.png);
  png_set_strip_alpha(d.png);
  png_set_interlace_handling(d.png);
  png_read_update_info(d.png, d.info);
  if (png_get_rowbytes(d.png, d.info) != static_cast<size_t>(width) * 3) {
    png_error(d.png, "unsupported pixel layout");
  }
  out.resize(height, width, 3);
  d.rows.resize(static_cast<size_t>(height));
  for (int64_t y = 0; y < height; ++y) d.rows[static_cast<size_t>(y)] = out.row(y);
  png_read_image(d.png, d.rows.data());
}

}  // namespace

void decode_png(std::span<const uint8_t> bytes, Image& out, std::string* warnings) {
  Decoder decoder;
  decoder.rest = bytes;
  decoder.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &decoder, fail, take_warning);
  if (decoder.png != nullptr) decoder.info = png_create_info_struct(decoder.png);
  if (decoder.info == nullptr) throw RunError("libpng does not start");
  if (setjmp(png_jmpbuf(decoder.png)) == 0) {
    decode_with(decoder, out);
  } else {
    throw RunError("broken PNG: " + std::string(decoder.message));
  }
  if (warnings != nullptr && decoder.warning[0] != '\0') *warnings += decoder.warning;
}

}  // namespace composer

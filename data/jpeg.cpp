#include "data/jpeg.h"

#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "composer/error.h"

// jpeglib.h needs <cstdio> before it.
#include <jerror.h>
#include <jpeglib.h>

namespace composer {
namespace {

/// libjpeg's error manager: errors jump back, warnings are kept. The common part must stand first.
struct Errors {
  jpeg_error_mgr manager;
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX] = "";
  char warning[JMSG_LENGTH_MAX] = "";
  bool ended_early = false;
};

Errors& errors_of(j_common_ptr codec) { return *reinterpret_cast<Errors*>(codec->err); }

[[noreturn]] void fail(j_common_ptr codec) {
  Errors& errors = errors_of(codec);
  (*codec->err->format_message)(codec, errors.message);
  std::longjmp(errors.jump, 1);
}

void take_message(j_common_ptr codec, int level) {
  if (level >= 0) return;
  // Entropy-coded data that stop before their last block: pixels are missing.
  if (codec->err->msg_code == JWRN_HIT_MARKER) fail(codec);
  if (codec->err->num_warnings++ == 0) {
    (*codec->err->format_message)(codec, errors_of(codec).warning);
  }
}

void be_silent(j_common_ptr) {}

jpeg_error_mgr* install(Errors& errors) {
  jpeg_std_error(&errors.manager);
  errors.manager.error_exit = fail;
  errors.manager.emit_message = take_message;
  errors.manager.output_message = be_silent;
  return &errors.manager;
}

void no_source_work(j_decompress_ptr) {}

// The file has ended: an end marker lets the decoder finish if it has all it needs.
boolean end_of_file(j_decompress_ptr decoder) {
  static const JOCTET end_marker[] = {0xFF, JPEG_EOI};
  errors_of(reinterpret_cast<j_common_ptr>(decoder)).ended_early = true;
  decoder->src->next_input_byte = end_marker;
  decoder->src->bytes_in_buffer = 2;
  return TRUE;
}

void skip_input(j_decompress_ptr decoder, long count) {
  jpeg_source_mgr* source = decoder->src;
  if (count <= 0) return;
  if (static_cast<size_t>(count) > source->bytes_in_buffer) {
    end_of_file(decoder);
    return;
  }
  source->next_input_byte += count;
  source->bytes_in_buffer -= static_cast<size_t>(count);
}

jpeg_source_mgr memory_source(std::span<const uint8_t> bytes) {
  jpeg_source_mgr source{};
  source.init_source = source.term_source = no_source_work;
  source.fill_input_buffer = end_of_file;
  source.skip_input_data = skip_input;
  source.resync_to_restart = jpeg_resync_to_restart;
  source.next_input_byte = bytes.data();
  source.bytes_in_buffer = bytes.size();
  return source;
}

struct Decoder {
  jpeg_decompress_struct codec{};
  Errors errors{};
  jpeg_source_mgr source{};
  std::vector<uint8_t> cmyk_rows;

  ~Decoder() { jpeg_destroy_decompress(&codec); }
};

uint8_t scale_255(int a, int b) {
  const int product = a * b + 128;
  return static_cast<uint8_t>((product + (product >> 8)) >> 8);
}

// Inverted inks, as Adobe's programs write them and every reader assumes: 255 = no ink.
void cmyk_to_rgb(const uint8_t* cmyk, int64_t pixels, uint8_t* rgb) {
  for (int64_t i = 0; i < pixels; ++i, cmyk += 4, rgb += 3) {
    const int black = cmyk[3];
    for (int c = 0; c < 3; ++c) {
      rgb[c] = static_cast<uint8_t>(std::max(black - scale_255(255 - cmyk[c], black), 0));
    }
  }
}

constexpr int kRowsAtOnce = 16;

void read_rgb(Decoder& d, Image& out) {
  JSAMPROW rows[kRowsAtOnce];
  while (d.codec.output_scanline < d.codec.output_height) {
    const int64_t first = d.codec.output_scanline;
    const int64_t count = std::min<int64_t>(kRowsAtOnce, out.height - first);
    for (int64_t i = 0; i < count; ++i) rows[i] = out.row(first + i);
    jpeg_read_scanlines(&d.codec, rows, static_cast<JDIMENSION>(count));
  }
}

void read_cmyk(Decoder& d, Image& out) {
  JSAMPROW row = d.cmyk_rows.data();
  while (d.codec.output_scanline < d.codec.output_height) {
    const int64_t y = d.codec.output_scanline;
    if (jpeg_read_scanlines(&d.codec, &row, 1) == 1) cmyk_to_rgb(row, out.width, out.row(y));
  }
}

/// Called with the jump set: between here and libjpeg no object needs its destructor.
void decode_with(Decoder& d, Image& out) {
  jpeg_create_decompress(&d.codec);
  d.codec.src = &d.source;
  jpeg_read_header(&d.codec, TRUE);
  const auto height = static_cast<int64_t>(d.codec.image_height);
  const auto width = static_cast<int64_t>(d.codec.image_width);
  if (height * width > kMaxPixels) {
    std::snprintf(d.errors.message, sizeof d.errors.message, "%lld x %lld pixels are too many",
                  static_cast<long long>(width), static_cast<long long>(height));
    std::longjmp(d.errors.jump, 1);
  }
  const bool inks = d.codec.jpeg_color_space == JCS_CMYK || d.codec.jpeg_color_space == JCS_YCCK;
  d.codec.out_color_space = inks ? JCS_CMYK : JCS_RGB;
  d.codec.dct_method = JDCT_ISLOW;
  jpeg_start_decompress(&d.codec);
  out.resize(height, width, 3);
  if (inks) {
    d.cmyk_rows.resize(static_cast<size_t>(width) * 4);
    read_cmyk(d, out);
  } else {
    read_rgb(d, out);
  }
  // With one scan the last pixel has been read even where the end marker is missing; with several,
  // scans are missing.
  if (d.errors.ended_early && jpeg_has_multiple_scans(&d.codec)) {
    std::snprintf(d.errors.message, sizeof d.errors.message, "premature end of file");
    std::longjmp(d.errors.jump, 1);
  }
}

struct Encoder {
  jpeg_compress_struct codec{};
  Errors errors{};
  unsigned char* bytes = nullptr;
  unsigned long size = 0;

  ~Encoder() {
    jpeg_destroy_compress(&codec);
    std::free(bytes);
  }
};

void encode_with(Encoder& e, const ImageView& image, int quality) {
  jpeg_create_compress(&e.codec);
  jpeg_mem_dest(&e.codec, &e.bytes, &e.size);
  e.codec.image_height = static_cast<JDIMENSION>(image.height);
  e.codec.image_width = static_cast<JDIMENSION>(image.width);
  e.codec.input_components = 3;
  e.codec.in_color_space = JCS_RGB;
  jpeg_set_defaults(&e.codec);
  jpeg_set_quality(&e.codec, quality, TRUE);
  jpeg_start_compress(&e.codec, TRUE);
  while (e.codec.next_scanline < e.codec.image_height) {
    auto row = const_cast<JSAMPROW>(image.row(e.codec.next_scanline));
    jpeg_write_scanlines(&e.codec, &row, 1);
  }
  jpeg_finish_compress(&e.codec);
}

}  // namespace

void decode_jpeg(std::span<const uint8_t> bytes, Image& out, std::string* warnings) {
  Decoder decoder;
  decoder.codec.err = install(decoder.errors);
  decoder.source = memory_source(bytes);
  if (setjmp(decoder.errors.jump) == 0) {
    decode_with(decoder, out);
  } else {
    throw RunError(decoder.errors.ended_early
                       ? "the JPEG data end too early (" + std::string(decoder.errors.message) + ")"
                       : "broken JPEG: " + std::string(decoder.errors.message));
  }
  if (warnings != nullptr && decoder.errors.warning[0] != '\0') *warnings += decoder.errors.warning;
}

std::vector<uint8_t> encode_jpeg(const ImageView& image, int quality) {
  Encoder encoder;
  encoder.codec.err = install(encoder.errors);
  if (setjmp(encoder.errors.jump) == 0) {
    encode_with(encoder, image, quality);
  } else {
    throw RunError("JPEG encoding failed: " + std::string(encoder.errors.message));
  }
  return {encoder.bytes, encoder.bytes + encoder.size};
}

}  // namespace composer

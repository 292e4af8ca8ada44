#include "data/jpeg/jpeg.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "base/error.h"
#include "data/jpeg/codec.h"
#include "data/jpeg/libjpeg.h"
#include "data/jpeg/scan.h"
#include "data/pixels/inks.h"

namespace composer {
namespace {

LibjpegErrors& errors_of(j_common_ptr codec) {
  return *reinterpret_cast<LibjpegErrors*>(codec->err);
}

[[noreturn]] void fail(j_common_ptr codec) {
  LibjpegErrors& errors = errors_of(codec);
  (*codec->err->format_message)(codec, errors.message);
  std::longjmp(errors.jump, 1);
}

void take_message(j_common_ptr codec, int level) {
  if (level >= 0) return;
  if (errors_of(codec).strict) fail(codec);
  // Entropy-coded data that stop before their last block: pixels are missing.
  if (codec->err->msg_code == JWRN_HIT_MARKER) fail(codec);
  if (codec->err->num_warnings++ == 0)
    (*codec->err->format_message)(codec, errors_of(codec).warning);
}

void be_silent(j_common_ptr) {}

void no_source_work(j_decompress_ptr) {}

// At the end of the file an end marker lets the decoder finish if it has all codes.
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
  LibjpegErrors errors{};
  jpeg_source_mgr source{};
  jpeg_progress_mgr progress{};
  std::vector<uint8_t> spare_row;

  explicit Decoder(std::span<const uint8_t> bytes) : source(memory_source(bytes)) {
    codec.err = install(errors);
  }
  ~Decoder() { jpeg_destroy_decompress(&codec); }
};

// Adobe's programs write inverted inks, and every reader assumes so: 255 = no ink.
void cmyk_to_rgb(uint8_t* cmyk, int64_t pixels, uint8_t* rgb) {
  for (int64_t i = 0; i < 4 * pixels; ++i) cmyk[i] = static_cast<uint8_t>(255 - cmyk[i]);
  inks_to_rgb(cmyk, pixels, rgb);
}

constexpr int kRowsAtOnce = 16;

void read_rgb(Decoder& d, Image& out, int64_t end) {
  JSAMPROW rows[kRowsAtOnce];
  for (int64_t done = 0; done < end;) {
    const int64_t count = std::min<int64_t>(kRowsAtOnce, end - done);
    for (int64_t i = 0; i < count; ++i) rows[i] = out.row(done + i);
    done += jpeg_read_scanlines(&d.codec, rows, static_cast<JDIMENSION>(count));
  }
}

void read_cmyk(Decoder& d, Image& out, int64_t end) {
  JSAMPROW row = d.spare_row.data();
  for (int64_t done = 0; done < end; ++done) {
    jpeg_read_scanlines(&d.codec, &row, 1);
    cmyk_to_rgb(row, out.width, out.row(done));
  }
}

[[noreturn]] void fail_with(Decoder& d, const char* format, ...) {
  va_list values;
  va_start(values, format);
  std::vsnprintf(d.errors.message, sizeof d.errors.message, format, values);
  va_end(values);
  std::longjmp(d.errors.jump, 1);
}

/// Scans of a few bytes that run over all of a large image would keep the decoder busy for hours.
/// Encoders make about ten.
void limit_scans(j_common_ptr codec) {
  constexpr int kMostScans = 100;
  if (reinterpret_cast<j_decompress_ptr>(codec)->input_scan_number <= kMostScans) return;
  LibjpegErrors& errors = errors_of(codec);
  std::snprintf(errors.message, sizeof errors.message, "more than %d scans", kMostScans);
  std::longjmp(errors.jump, 1);
}

void set_output(Decoder& d, int scale, Dct dct) {
  const bool inks = d.codec.jpeg_color_space == JCS_CMYK || d.codec.jpeg_color_space == JCS_YCCK;
  d.codec.out_color_space = inks ? JCS_CMYK : JCS_RGB;
  d.codec.dct_method = dct == Dct::fast ? JDCT_IFAST : JDCT_ISLOW;
  d.codec.scale_num = 1;
  d.codec.scale_denom = static_cast<unsigned>(scale);
}

/// jpeg_crop_scanline computes the width of a component as if all components had the same DCT
/// scale, which damages components that are upsampled later.
bool can_crop(const Decoder& d) {
  for (int i = 0; i < d.codec.num_components; ++i) {
    const jpeg_component_info& component = d.codec.comp_info[i];
#if JPEG_LIB_VERSION >= 70
    const bool as_others = component.DCT_h_scaled_size == d.codec.min_DCT_h_scaled_size;
#else
    const bool as_others = component.DCT_scaled_size == d.codec.min_DCT_scaled_size;
#endif
    if (!as_others && component.downsampled_width < d.codec.output_width) return false;
  }
  return true;
}

/// Reads the rows of the region, at least the columns of `around`, and all codes below them.
/// Returns the first column.
int64_t read_region(Decoder& d, const JpegRegion& region, Image& out) {
  JDIMENSION left = 0, width = d.codec.output_width;
  if (region.around.width < region.whole.width && can_crop(d)) {
    left = static_cast<JDIMENSION>(region.around.left);
    width = static_cast<JDIMENSION>(region.around.width);
    jpeg_crop_scanline(&d.codec, &left, &width);
  }
  const int64_t top = region.wanted.top, height = region.wanted.height;
  out.resize(height, width, 3);
  d.spare_row.resize(static_cast<size_t>(width) * 4);
  if (top > 0) jpeg_skip_scanlines(&d.codec, static_cast<JDIMENSION>(top));
  if (d.codec.out_color_space == JCS_CMYK)
    read_cmyk(d, out, height);
  else
    read_rgb(d, out, height);
  // Several scans were read to the end before the first row. The rest of a single scan is decoded
  // here, which jpeg_skip_scanlines would not do.
  JSAMPROW row = d.spare_row.data();
  while (!jpeg_has_multiple_scans(&d.codec) && d.codec.output_scanline < d.codec.output_height)
    jpeg_read_scanlines(&d.codec, &row, 1);
  return left;
}

/// Called with the jump set: between here and libjpeg no object needs its destructor.
ImagePart decode_with(Decoder& d, const JpegRequest* request, Image& out) {
  jpeg_create_decompress(&d.codec);
  d.codec.src = &d.source;
  d.progress.progress_monitor = limit_scans;
  d.codec.progress = &d.progress;
  jpeg_read_header(&d.codec, TRUE);
  const ImageSize size{d.codec.image_height, d.codec.image_width};
  if (size.height * size.width > kMaxPixels) {
    fail_with(d, "%lld x %lld pixels are too many", static_cast<long long>(size.width),
              static_cast<long long>(size.height));
  }
  const bool huffman = !jpeg_has_multiple_scans(&d.codec) && !d.codec.arith_code;
  const auto codes = static_cast<int64_t>(d.source.bytes_in_buffer);
  if (huffman && size.height * size.width > kMostHuffmanPixels * codes) {
    d.errors.ended_early = true;
    fail_with(d, "%lld bytes for %lld x %lld pixels", static_cast<long long>(codes),
              static_cast<long long>(size.width), static_cast<long long>(size.height));
  }
  const JpegRequest whole{{0, 0, size.height, size.width}};
  const JpegRequest& wanted = request != nullptr ? *request : whole;
  const JpegRegion region(size, wanted);
  set_output(d, wanted.scale, wanted.dct);
  jpeg_start_decompress(&d.codec);
  // All of several scans were read here, so some are missing. A single scan may have its last pixel
  // without an end marker.
  if (d.errors.ended_early && jpeg_has_multiple_scans(&d.codec))
    fail_with(d, "premature end of file");
  const Box box = region.wanted;
  const int64_t left = read_region(d, region, out);
  return {out.view().crop(0, box.left - left, box.height, box.width), box, region.whole};
}

// The first members of libjpeg's private jpeg_entropy_decoder, unchanged from version 6b to
// libjpeg-turbo 3. jpeg_index_works() tests this.
#if defined(LIBJPEG_TURBO_VERSION_NUMBER) && LIBJPEG_TURBO_VERSION_NUMBER >= 2000000 && \
    LIBJPEG_TURBO_VERSION_NUMBER < 4000000 && JPEG_LIB_VERSION < 90
constexpr bool kFeedPossible = true;
#else
constexpr bool kFeedPossible = false;
#endif

struct EntropyDecoder {
  void (*start_pass)(j_decompress_ptr);
  boolean (*decode_mcu)(j_decompress_ptr, JBLOCKROW*);
};

struct Feeder {
  JpegFeed feed;
  int64_t left_in_row = 0;
  int16_t* blocks = nullptr;
};

/// Points libjpeg's list of blocks at our blocks. libjpeg zeroes an MCU's blocks before it asks for
/// the next MCU.
boolean feed_mcu(j_decompress_ptr codec, JBLOCKROW* mcu) {
  auto& feeder = *static_cast<Feeder*>(codec->client_data);
  if (feeder.left_in_row == 0) {
    feeder.blocks = feeder.feed.coefficients->next_row();
    if (feeder.blocks == nullptr) fail(reinterpret_cast<j_common_ptr>(codec));
    feeder.left_in_row = feeder.feed.mcus_across;
  }
  --feeder.left_in_row;
  for (int i = 0; i < feeder.feed.blocks; ++i, feeder.blocks += DCTSIZE2)
    mcu[i] = reinterpret_cast<JBLOCKROW>(feeder.blocks);
  return TRUE;
}

void feed_with(Decoder& d, Feeder& feeder, int scale, Dct dct, int64_t rows, Image& out) {
  jpeg_create_decompress(&d.codec);
  d.codec.src = &d.source;
  jpeg_read_header(&d.codec, TRUE);
  set_output(d, scale, dct);
  jpeg_start_decompress(&d.codec);
  if (jpeg_has_multiple_scans(&d.codec) || d.codec.MCUs_per_row != feeder.feed.mcus_across ||
      d.codec.blocks_in_MCU != feeder.feed.blocks)
    fail_with(d, "a stream that cannot be fed");
  d.codec.client_data = &feeder;
  reinterpret_cast<EntropyDecoder*>(d.codec.entropy)->decode_mcu = feed_mcu;
  out.resize(rows, d.codec.output_width, 3);
  read_rgb(d, out, rows);
}

struct Encoder {
  jpeg_compress_struct codec{};
  LibjpegErrors errors{};
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

jpeg_error_mgr* install(LibjpegErrors& errors) {
  jpeg_std_error(&errors.manager);
  errors.manager.error_exit = fail;
  errors.manager.emit_message = take_message;
  errors.manager.output_message = be_silent;
  return &errors.manager;
}

JpegRegion::JpegRegion(ImageSize size, const JpegRequest& request) {
  const Box& box = request.region;
  if (box.top < 0 || box.left < 0 || box.height < 1 || box.width < 1 ||
      box.top + box.height > size.height || box.left + box.width > size.width)
    throw RunError("the region wanted lies outside the image");
  const int64_t scale = request.scale;
  const auto up = [scale](int64_t value) { return (value + scale - 1) / scale; };
  whole = {up(size.height), up(size.width)};
  wanted.top = box.top / scale, wanted.left = box.left / scale;
  wanted.height = up(box.top + box.height) - wanted.top;
  wanted.width = up(box.left + box.width) - wanted.left;
  const int64_t bottom = std::min(whole.height, wanted.top + wanted.height + 1);
  int64_t right = std::min(whole.width, wanted.left + wanted.width + 1);
  around.top = std::max<int64_t>(0, wanted.top - 1);
  around.left = std::clamp<int64_t>(right - 5, 0, std::max<int64_t>(0, wanted.left - 1));
  right = std::max(right, std::min<int64_t>(5, whole.width));
  around.height = bottom - around.top;
  around.width = right - around.left;
}

ImagePart decode_jpeg_region(std::span<const uint8_t> bytes, const JpegRequest* request,
                             Image& pixels, std::string* warnings) {
  Decoder decoder(bytes);
  ImagePart part;
  if (setjmp(decoder.errors.jump) == 0) {
    part = decode_with(decoder, request, pixels);
  } else {
    throw RunError(decoder.errors.ended_early
                       ? "the JPEG data end too early (" + std::string(decoder.errors.message) + ")"
                       : "broken JPEG: " + std::string(decoder.errors.message));
  }
  if (warnings != nullptr && decoder.errors.warning[0] != '\0') *warnings += decoder.errors.warning;
  return part;
}

bool jpeg_feed_possible() { return kFeedPossible; }

bool decode_jpeg_feed(const JpegFeed& feed, int scale, Dct dct, int64_t rows, Image& pixels,
                      std::string* warnings) {
  Decoder decoder(feed.header);
  Feeder feeder{feed};
  if (setjmp(decoder.errors.jump) != 0) return false;
  feed_with(decoder, feeder, scale, dct, rows, pixels);
  if (warnings != nullptr && decoder.errors.warning[0] != '\0') *warnings += decoder.errors.warning;
  return true;
}

void decode_jpeg(std::span<const uint8_t> bytes, Image& out, std::string* warnings) {
  decode_jpeg_region(bytes, nullptr, out, warnings);
}

std::vector<uint8_t> encode_jpeg(const ImageView& image, int quality) {
  Encoder encoder;
  encoder.codec.err = install(encoder.errors);
  if (setjmp(encoder.errors.jump) == 0)
    encode_with(encoder, image, quality);
  else
    throw RunError("JPEG encoding failed: " + std::string(encoder.errors.message));
  return {encoder.bytes, encoder.bytes + encoder.size};
}

}  // namespace composer

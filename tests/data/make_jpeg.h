// For the tests of JPEG streams: makes them in all the ways that libjpeg knows.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

// jpeglib.h needs <cstdio> before it.
#include <jpeglib.h>

#include "base/random.h"
#include "data/pixels/image.h"

namespace composer::test {

struct JpegKind {
  int quality = 90;
  int h_samp = 2, v_samp = 2;  ///< of the luma; 1 x 1 for the others
  J_COLOR_SPACE coded = JCS_YCbCr;
  bool progressive = false, arithmetic = false, interleaved = true, optimized = false;
  unsigned restart_interval = 0;  ///< in MCUs
  int orientation = 0;            ///< EXIF's; 0 = no EXIF segment
};

/// Something like a photograph: slopes, edges and some noise.
inline Image make_picture(int64_t height, int64_t width, int64_t channels = 3) {
  Image image;
  image.resize(height, width, channels);
  Random random(7, "test.picture", 0, static_cast<uint64_t>(height * 1000 + width));
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width * channels; ++x) {
      const int64_t column = x / channels, channel = x % channels;
      const bool inside =
          (column - width / 3) * (column - width / 3) + (y - height / 2) * (y - height / 2) <
          height * height / 9;
      image.row(y)[x] =
          static_cast<uint8_t>(20 + (column * (3 - channel) + y * (1 + channel)) % 160 +
                               (inside ? 40 : 0) + random.below(12));
    }
  }
  return image;
}

inline std::vector<uint8_t> exif_segment(int orientation) {
  return {'E', 'x',  'i',  'f', 0,
          0,   'I',  'I',  42,  0,
          8,   0,    0,    0,   1,
          0,   0x12, 0x01, 3,   0,
          1,   0,    0,    0,   static_cast<uint8_t>(orientation),
          0,   0,    0,    0,   0,
          0,   0};
}

/// image: 3 channels, 1 for JCS_GRAYSCALE, 4 (inks) for JCS_CMYK and JCS_YCCK.
inline std::vector<uint8_t> make_jpeg(const Image& image, const JpegKind& kind = {}) {
  jpeg_compress_struct codec{};
  jpeg_error_mgr errors{};
  codec.err = jpeg_std_error(&errors);
  jpeg_create_compress(&codec);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&codec, &bytes, &size);
  codec.image_height = static_cast<JDIMENSION>(image.height);
  codec.image_width = static_cast<JDIMENSION>(image.width);
  codec.input_components = static_cast<int>(image.channels);
  codec.in_color_space = image.channels == 1   ? JCS_GRAYSCALE
                         : image.channels == 3 ? JCS_RGB
                                               : JCS_CMYK;
  jpeg_set_defaults(&codec);
  jpeg_set_colorspace(&codec, kind.coded);
  jpeg_set_quality(&codec, kind.quality, TRUE);
  codec.comp_info[0].h_samp_factor = codec.num_components == 1 ? 1 : kind.h_samp;
  codec.comp_info[0].v_samp_factor = codec.num_components == 1 ? 1 : kind.v_samp;
  codec.optimize_coding = kind.optimized ? TRUE : FALSE;
  codec.arith_code = kind.arithmetic ? TRUE : FALSE;
  codec.restart_interval = kind.restart_interval;
  if (kind.progressive) jpeg_simple_progression(&codec);
  std::vector<jpeg_scan_info> scans(static_cast<size_t>(codec.num_components));
  if (!kind.interleaved) {
    for (size_t c = 0; c < scans.size(); ++c) scans[c] = {1, {static_cast<int>(c)}, 0, 63, 0, 0};
    codec.scan_info = scans.data();
    codec.num_scans = static_cast<int>(scans.size());
  }
  jpeg_start_compress(&codec, TRUE);
  if (kind.orientation > 0) {
    const auto exif = exif_segment(kind.orientation);
    jpeg_write_marker(&codec, JPEG_APP0 + 1, exif.data(), static_cast<unsigned>(exif.size()));
  }
  while (codec.next_scanline < codec.image_height) {
    auto row = const_cast<JSAMPROW>(image.pixels.data() +
                                    codec.next_scanline * image.width * image.channels);
    jpeg_write_scanlines(&codec, &row, 1);
  }
  jpeg_finish_compress(&codec);
  std::vector<uint8_t> result(bytes, bytes + size);
  jpeg_destroy_compress(&codec);
  std::free(bytes);
  return result;
}

}  // namespace composer::test

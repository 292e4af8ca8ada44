// JPEG streams of every kind for tests, by libjpeg alone, and whole images back from them.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"
#include "data/jpeg/decoder.h"
#include "data/pixels/image.h"

// jpeglib.h needs <cstdio> before it.
#include <jpeglib.h>

namespace composer::test {

struct JpegCoding {
  std::string name = "4:2:0";
  std::vector<std::pair<int, int>> sampling = {{2, 2}, {1, 1}, {1, 1}};  ///< across, down
  J_COLOR_SPACE space = JCS_YCbCr;
  int quality = 85;
  bool optimised = false;
  bool progressive = false;
  bool arithmetic = false;
  int restart_rows = 0;
  int restart_mcus = 0;
  bool separate_scans = false;
};

/// Edges, gradients and some noise: neither smooth nor incompressible.
inline Image test_image(int64_t height, int64_t width, uint64_t seed = 0) {
  Image image;
  image.resize(height, width, 3);
  Random random(seed, "test image", 0, 0);
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      uint8_t* pixel = image.row(y) + 3 * x;
      const bool inside = (x / 13 + y / 9) % 3 == 0;
      pixel[0] = static_cast<uint8_t>(inside ? 230 - x % 50 : 5 * y % 256);
      pixel[1] = static_cast<uint8_t>((x * x / 20 + y) % 256);
      pixel[2] = static_cast<uint8_t>(inside ? 20 : 128 + random.bits() % 60);
    }
  }
  return image;
}

inline std::vector<uint8_t> encode(const Image& image, const JpegCoding& coding) {
  jpeg_compress_struct codec{};
  jpeg_error_mgr errors{};
  codec.err = jpeg_std_error(&errors);
  jpeg_create_compress(&codec);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&codec, &bytes, &size);
  codec.image_height = static_cast<JDIMENSION>(image.height);
  codec.image_width = static_cast<JDIMENSION>(image.width);
  const bool inks = coding.space == JCS_CMYK || coding.space == JCS_YCCK;
  codec.input_components = inks ? 4 : 3;
  codec.in_color_space = inks ? JCS_CMYK : JCS_RGB;
  jpeg_set_defaults(&codec);
  jpeg_set_colorspace(&codec, coding.space);
  jpeg_set_quality(&codec, coding.quality, TRUE);
  for (size_t i = 0; i < static_cast<size_t>(codec.num_components); ++i) {
    const auto [across, down] = i < coding.sampling.size() ? coding.sampling[i] : std::pair(1, 1);
    codec.comp_info[i].h_samp_factor = across;
    codec.comp_info[i].v_samp_factor = down;
  }
  codec.optimize_coding = coding.optimised ? TRUE : FALSE;
  codec.arith_code = coding.arithmetic ? TRUE : FALSE;
  codec.restart_in_rows = coding.restart_rows;
  codec.restart_interval = static_cast<unsigned>(coding.restart_mcus);
  if (coding.progressive) jpeg_simple_progression(&codec);
  jpeg_scan_info scans[4] = {};
  if (coding.separate_scans) {
    for (int i = 0; i < codec.num_components; ++i) scans[i] = {1, {i}, 0, 63, 0, 0};
    codec.scan_info = scans, codec.num_scans = codec.num_components;
  }
  jpeg_start_compress(&codec, TRUE);
  std::vector<uint8_t> line(static_cast<size_t>(image.width) * 4);
  while (codec.next_scanline < codec.image_height) {
    const uint8_t* pixel = image.view().row(codec.next_scanline);
    for (int64_t x = 0; x < image.width; ++x) {
      for (int64_t c = 0; c < codec.input_components; ++c) {
        line[static_cast<size_t>(x * codec.input_components + c)] = pixel[3 * x + c % 3];
      }
    }
    JSAMPROW row = line.data();
    jpeg_write_scanlines(&codec, &row, 1);
  }
  jpeg_finish_compress(&codec);
  jpeg_destroy_compress(&codec);
  std::vector<uint8_t> result(bytes, bytes + size);
  std::free(bytes);
  return result;
}

/// The whole image as RGB at 1/scale, by the plainest use of libjpeg. For undamaged streams of one
/// or three components.
inline Image decode_whole(std::span<const uint8_t> bytes, int scale, Dct dct) {
  jpeg_decompress_struct codec{};
  jpeg_error_mgr errors{};
  codec.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&codec);
  jpeg_mem_src(&codec, bytes.data(), bytes.size());
  jpeg_read_header(&codec, TRUE);
  codec.out_color_space = JCS_RGB;
  codec.dct_method = dct == Dct::fast ? JDCT_IFAST : JDCT_ISLOW;
  codec.scale_num = 1, codec.scale_denom = static_cast<unsigned>(scale);
  jpeg_start_decompress(&codec);
  Image image;
  image.resize(codec.output_height, codec.output_width, 3);
  while (codec.output_scanline < codec.output_height) {
    JSAMPROW row = image.row(codec.output_scanline);
    jpeg_read_scanlines(&codec, &row, 1);
  }
  jpeg_destroy_decompress(&codec);
  return image;
}

}  // namespace composer::test

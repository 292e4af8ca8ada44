// Photographs encoded at another quality without going through pixels: their DCT coefficients are
// rounded anew, and chroma of full resolution is halved.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "data/jpeg/huffman.h"
#include "data/jpeg/requantize_simd.h"
#include "data/jpeg/rows.h"
#include "data/jpeg/scan.h"

namespace composer {

struct RequantizedJpeg {
  ImageSize size;
  std::vector<uint8_t> bytes;
  std::vector<uint8_t> index;  ///< as of make_jpeg_index; empty where it does not fit the format
};

/// Keeps its memory from image to image.
class JpegRequantizer {
 public:
  /// What encode_jpeg() makes of the pixels of a JPEG stream, but for what they lose on the way
  /// when they are rounded and limited to 0..255: a baseline stream of halved chroma with the
  /// tables of this quality, 1 to 100. The same bytes on every processor. Nothing for a stream of
  /// another kind than YCbCr of full or halved chroma in one scan (JpegScan::chroma_step), and
  /// for a damaged one.
  std::optional<RequantizedJpeg> run(std::span<const uint8_t> bytes, int quality);

 private:
  struct Component {
    JpegFactors source{}, factors{};
    uint32_t predictor = 0;
  };

  bool start(std::span<const uint8_t> bytes, int quality);
  void make_header(int quality);
  void add_halved_rows();
  void add_full_rows();
  void add_full_row(const int16_t* above, const int16_t* below);
  void begin_row();
  void add_block(size_t component, const int16_t* block);
  void add_halved_block(size_t component, const std::array<const int16_t*, 4>& blocks);
  /// That lies outside of the image: as the one before it.
  void add_outer_block(size_t component);
  void encode(size_t component, const int16_t* block, uint64_t present);
  void put_whole_bytes();
  void make_room();
  RequantizedJpeg finish();

  JpegScan scan_;
  HuffmanTables tables_;
  McuLayout layout_;
  WalkedRows rows_;
  std::array<Component, 3> components_;
  std::vector<int16_t> above_;  ///< a row of MCUs, until the next one is there

  int quality_ = 0;
  std::vector<uint8_t> header_;  ///< of that quality
  size_t size_at_ = 0;           ///< of height and width in it
  JpegScan header_scan_;
  std::array<JpegCodes, 2> dc_codes_{}, ac_codes_{};  ///< of luma, of chroma

  std::vector<uint8_t> out_;
  size_t written_ = 0;
  std::array<std::array<int16_t, 64>, 4> outer_;
  JpegBits bits_;  ///< not yet written
  std::vector<JpegRowStart> row_starts_;
};

}  // namespace composer

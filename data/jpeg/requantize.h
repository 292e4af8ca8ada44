// Encodes photographs at another quality without decoding them to pixels: the DCT coefficients are
// quantised again, and chroma of full resolution is halved.
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
  std::vector<uint8_t> index;  ///< as from make_jpeg_index; empty when it does not fit the format
};

/// Keeps its memory from image to image.
class JpegRequantizer {
 public:
  /// Makes the stream that encode_jpeg() makes of the decoded pixels, but without rounding and
  /// clamping pixels to 0..255: a baseline stream with halved chroma and the tables of this
  /// quality, 1 to 100. Its bytes are equal on every processor. Nothing for a damaged stream, and
  /// for any but YCbCr with full or halved chroma in one scan (JpegScan::chroma_step).
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
  /// Adds a block outside of the image, equal to the block before it.
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
  std::vector<int16_t> above_;  ///< a row of MCUs that waits for the next one

  int quality_ = 0;
  std::vector<uint8_t> header_;  ///< the header for quality_
  size_t size_at_ = 0;           ///< offset of height and width in header_
  JpegScan header_scan_;
  std::array<JpegCodes, 2> dc_codes_{}, ac_codes_{};  ///< luma, chroma

  std::vector<uint8_t> out_;
  size_t written_ = 0;
  std::array<std::array<int16_t, 64>, 4> outer_;
  JpegBits bits_;  ///< bits that are not yet written
  std::vector<JpegRowStart> row_starts_;
};

}  // namespace composer

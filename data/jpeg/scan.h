// The parts of a JPEG stream that data/jpeg/walk.h can read: one interleaved scan of baseline
// Huffman codes without restart intervals, of one or three components.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "data/pixels/image.h"

namespace composer {

/// The most pixels that a byte of Huffman codes gives: a block takes at least two bits, and an MCU
/// of 32 x 32 pixels has at least eight blocks.
inline constexpr int64_t kMostHuffmanPixels = 512;

/// Writes height and width as a frame header has them.
void put_jpeg_size(ImageSize size, uint8_t* at);

/// A block of the MCU, in the order of the stream.
struct JpegBlock {
  uint8_t component = 0;
  uint8_t dc_table = 0;
  uint8_t ac_table = 0;
};

/// Keeps its memory from stream to stream. The spans point into the stream.
struct JpegScan {
  ImageSize size;
  int64_t mcu_height = 0;  ///< in pixels
  int64_t mcu_width = 0;
  int64_t mcu_rows = 0;
  int64_t mcus_across = 0;
  int components = 0;
  int blocks = 0;  ///< blocks of an MCU
  std::array<JpegBlock, 10> block;
  std::array<std::span<const uint8_t>, 4> dc_tables;  ///< as in the DHT segment; empty = none
  std::array<std::span<const uint8_t>, 4> ac_tables;
  /// Pixels of a chroma sample along each side, 1 or 2, of a YCbCr image for which libjpeg has no
  /// warning; otherwise 0.
  int chroma_step = 0;
  std::array<std::array<int16_t, 64>, 3>
      quantization{};              ///< then: of each component, natural order
  std::span<const uint8_t> codes;  ///< from behind the scan's header to the end of the data

  /// The header with which libjpeg decodes coefficients: the stream up to its codes, without
  /// Huffman tables and without segments that do not influence pixels.
  std::vector<uint8_t> header;
  /// Writes the image's size into `header`.
  void set_size(ImageSize of) { put_jpeg_size(of, header.data() + size_at_); }

  /// False for all other streams: progressive, damaged, with restart intervals, too short for their
  /// size, ...
  bool parse(std::span<const uint8_t> bytes);

 private:
  bool take(uint8_t marker, std::span<const uint8_t> segment);
  bool take_frame(std::span<const uint8_t> segment);
  bool take_tables(std::span<const uint8_t> segment);
  bool take_scan(std::span<const uint8_t> segment);
  void keep(uint8_t marker, std::span<const uint8_t> segment);
  void take_quantization(std::span<const uint8_t> segment);
  void take_application(uint8_t marker, std::span<const uint8_t> segment);
  int find_chroma_step();

  struct Component {
    uint8_t id, horizontal, vertical, quantization;
  };
  std::array<Component, 3> component_{};
  std::array<std::span<const uint8_t>, 4> quantization_;  ///< in the stream's order; empty = none
  bool plain_ = true;  ///< all segments so far are of the usual kind
  bool jfif_ = false, adobe_ = false;
  size_t size_at_ = 0;
};

}  // namespace composer

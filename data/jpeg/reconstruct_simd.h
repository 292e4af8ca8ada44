// Coefficients -> samples -> RGB, with libjpeg-turbo's results: its accurate inverse DCT, its
// triangle filter for halved chroma, its conversion of colours. Equal bit by bit, even for damaged
// streams.
#pragma once

#include <cstdint>

namespace composer {

/// The destination of a block's samples, and its quantization table.
struct JpegTarget {
  uint8_t* samples = nullptr;
  int64_t stride = 0;
  const int16_t* quantization = nullptr;  ///< in natural order
};

/// A row of pixels from rows of samples. Up to 64 samples beyond the last pixel may be read.
struct JpegColorRow {
  const uint8_t* luma = nullptr;
  /// The row of chroma samples that contains the pixels and, for halved chroma, the nearer
  /// neighbouring row.
  const uint8_t* blue[2] = {};
  const uint8_t* red[2] = {};
  int64_t chroma_width = 0;      ///< width of the whole rows, at least 1
  int64_t first = 0, count = 0;  ///< the pixels wanted
};

struct JpegKernels {
  /// Inverse DCT of `count` adjacent blocks of coefficients, which are zeroed.
  void (*transform)(int16_t* blocks, int64_t count, const JpegTarget* targets) = nullptr;
  /// Colours of a row with chroma at full resolution.
  void (*color_full)(const JpegColorRow& row, uint8_t* rgb) = nullptr;
  /// Colours of a row with halved chroma. sums: room for 2 * (chroma_width + 128) numbers.
  void (*color_halved)(const JpegColorRow& row, int16_t* sums, uint8_t* rgb) = nullptr;
};

/// Null functions for a processor without vector instructions.
const JpegKernels& jpeg_kernels();

}  // namespace composer

// Coefficients -> samples -> RGB, with libjpeg-turbo's results: its accurate inverse DCT, its
// triangle filter for halved chroma, its conversion of colours. All bit by bit, what its vectors
// make of damaged streams included.
#pragma once

#include <cstdint>

namespace composer {

/// Where a block's samples go, and what its coefficients are multiplied by.
struct JpegTarget {
  uint8_t* samples = nullptr;
  int64_t stride = 0;
  const int16_t* quantization = nullptr;  ///< in natural order
};

/// A row of pixels from rows of samples. Each row of samples may be read 64 beyond the last pixel.
struct JpegColorRow {
  const uint8_t* luma = nullptr;
  /// The row of chroma samples that the pixels lie in, and, where chroma is halved, that one's
  /// neighbour on their side.
  const uint8_t* blue[2] = {};
  const uint8_t* red[2] = {};
  int64_t chroma_width = 0;      ///< of the whole rows, at least 1
  int64_t first = 0, count = 0;  ///< the pixels wanted
};

struct JpegKernels {
  /// Blocks of coefficients, one after the other, which are zero thereafter.
  void (*transform)(int16_t* blocks, int64_t count, const JpegTarget* targets) = nullptr;
  /// Of as much chroma as luma.
  void (*color_full)(const JpegColorRow& row, uint8_t* rgb) = nullptr;
  /// sums: room for chroma_width + 128 numbers twice.
  void (*color_halved)(const JpegColorRow& row, int16_t* sums, uint8_t* rgb) = nullptr;
};

/// Null where the processor has no vectors that do it.
const JpegKernels& jpeg_kernels();

}  // namespace composer

// The parts of a 3 x 3 convolution by Winograd's F(2 x 2, 3 x 3) and F(4 x 4, 3 x 3), on pixels of
// channels side by side: for each pair of channels tiles of 2 x 2 output pixels take 16 products
// instead of 36, tiles of 4 x 4 take 36 instead of 144.
// Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016. The points of the
// larger tiles are 0, +-sqrt(1/2), +-sqrt(2) and infinity, which round less than 0, +-1, +-2.
#pragma once

#include <cstdint>

#include "inference/winograd_tiles.h"

namespace composer {

/// Input channels that lie side by side in WinogradFactors::values; the last chunk is filled with
/// zeros.
inline constexpr int64_t winograd_chunk = 16;

struct WinogradInput {
  const float* from;   ///< [N, height, width, channels]
  const float* zeros;  ///< [channels] zeros, a pixel outside the images
  int64_t channels;
};

/// The factors of a panel's sums.
struct WinogradFactors {
  const float* values;   ///< [parts][values][chunks][rows][winograd_chunk]
  const float* weights;  ///< [values][chunks * winograd_chunk][panel]
  int64_t chunks;
  /// Floats from `weights` on that are prefetched; 0 for weights that are in the cache already.
  int64_t prefetched;
};

/// The output of a panel.
struct WinogradOutput {
  const float* bias;    ///< [panel]
  const float* addend;  ///< strides as `to`; may be `to`, or null
  bool relu;
  float* to;         ///< the panel's first channel of the first pixel
  int64_t channels;  ///< floats from one pixel to the next
  int64_t count;     ///< output channels of the panel
};

/// The functions for one set of vector instructions and one size of tiles.
struct WinogradKernels {
  /// Output channels that are computed together; 0 where there are no vectors.
  int64_t panel;
  int64_t rows;  ///< most tiles of a part

  /// Computes the values of parts [begin, end) of the block. to: the WinogradFactors::values of all
  /// parts.
  void (*transform_input)(const WinogradBlock& block, const WinogradInput& input, int64_t begin,
                          int64_t end, float* to);
  /// sums: [values][count][panel].
  void (*multiply)(const WinogradBlock& block, const WinogradFactors& factors, float* sums);
  void (*transform_output)(const WinogradBlock& block, const float* sums,
                           const WinogradOutput& output);
};

/// The best kernels for this CPU. size: side of the tiles, 2 or 4 output pixels.
const WinogradKernels& winograd_kernels(int64_t size);

}  // namespace composer

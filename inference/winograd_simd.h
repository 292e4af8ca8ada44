// The parts of a 3 x 3 convolution by Winograd's F(2 x 2, 3 x 3) and F(4 x 4, 3 x 3), on pixels of
// channels side by side: for each pair of channels tiles of 2 x 2 output pixels take 16 products
// instead of 36, tiles of 4 x 4 take 36 instead of 144.
// Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016. The points of the
// larger tiles are 0, +-sqrt(1/2), +-sqrt(2) and infinity, which round less than 0, +-1, +-2.
#pragma once

#include <cstdint>

#include "inference/winograd_tiles.h"

namespace composer {

/// Input channels that lie side by side between the parts; where there are fewer, zeros follow.
inline constexpr int64_t winograd_chunk = 16;

struct WinogradInput {
  const float* from;   ///< [N, height, width, channels]
  const float* zeros;  ///< as many as there are channels
  int64_t channels;
};

/// What a panel's sums are made of.
struct WinogradFactors {
  const float* values;   ///< [parts][values][chunks][rows][winograd_chunk]
  const float* weights;  ///< [values][chunks * winograd_chunk][panel]
  int64_t chunks;
  /// So many floats from `weights` on come into the cache before they are read: 0 for weights that
  /// are there already.
  int64_t prefetched;
};

/// Where a panel's output goes.
struct WinogradOutput {
  const float* bias;    ///< [panel]
  const float* addend;  ///< laid out as `to`, or null; may be it
  bool relu;
  float* to;         ///< of the panel's first channel, in the first image's first pixel
  int64_t channels;  ///< of a pixel, from one to the next
  int64_t count;     ///< of those, how many the panel has
};

/// For one set of vector instructions and one size of tiles.
struct WinogradKernels {
  /// Output channels that are computed together; 0 where there are no vectors.
  int64_t panel;
  int64_t rows;  ///< tiles of a part, at most

  /// The values of parts [begin, end) of the block's. to: WinogradFactors::values, of all.
  void (*transform_input)(const WinogradBlock& block, const WinogradInput& input, int64_t begin,
                          int64_t end, float* to);
  /// sums: [values][count][panel].
  void (*multiply)(const WinogradBlock& block, const WinogradFactors& factors, float* sums);
  void (*transform_output)(const WinogradBlock& block, const float* sums,
                           const WinogradOutput& output);
};

/// The best that this CPU has, for tiles of 2 or 4 output pixels either way.
const WinogradKernels& winograd_kernels(int64_t size);

}  // namespace composer

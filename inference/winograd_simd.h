// The parts of a 3 x 3 convolution by Winograd's F(2 x 2, 3 x 3) and F(4 x 4, 3 x 3), on pixels of
// channels side by side: for each pair of channels tiles of 2 x 2 output pixels take 16 products
// instead of 36, tiles of 4 x 4 take 36 instead of 144.
// Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016. The points of the
// larger tiles are 0, +-sqrt(1/2), +-sqrt(2) and infinity, which round less than 0, +-1, +-2.
#pragma once

#include <cstdint>

namespace composer {

/// The tiles of a number of images, image by image and row by row. Those at the end of a row or a
/// column may reach beyond the output.
struct WinogradTiles {
  int64_t size;                   ///< of a tile either way, in output pixels: 2 or 4
  int64_t height, width;          ///< of the input
  int64_t padding_y, padding_x;   ///< zeros on either side
  int64_t out_height, out_width;  ///< of the output, which has stride 1

  int64_t columns() const { return (out_width + size - 1) / size; }
  int64_t of_image() const { return (out_height + size - 1) / size * columns(); }
  /// Of each tile, which are multiplied.
  int64_t values() const { return (size + 2) * (size + 2); }
};

/// Tiles [first, first + count), which are computed together.
struct WinogradBlock {
  const WinogradTiles& tiles;
  int64_t first, count;
};

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
  /// Tiles that are, at most: a block has as few parts as it can have, which differ by one.
  int64_t rows;

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

// The parts of a 3 x 3 convolution by Winograd's F(2 x 2, 3 x 3), on pixels of channels side by
// side: tiles of 2 x 2 output pixels take 16 products for each pair of channels instead of 36.
// Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016.
#pragma once

#include <cstdint>

namespace composer {

/// The tiles of a number of images, image by image and row by row. Those at the end of a row or a
/// column may reach beyond the output.
struct WinogradTiles {
  int64_t height, width;          ///< of the input
  int64_t padding_y, padding_x;   ///< zeros on either side
  int64_t out_height, out_width;  ///< of the output, which has stride 1

  int64_t columns() const { return (out_width + 1) / 2; }
  int64_t of_image() const { return (out_height + 1) / 2 * columns(); }
};

/// Tiles [first, first + count), which are computed together.
struct WinogradBlock {
  const WinogradTiles& tiles;
  int64_t first, count;
};

/// A tile's 16 values.
inline constexpr int64_t winograd_values = 16;
/// Input channels that lie side by side between the parts; where there are fewer, zeros follow.
inline constexpr int64_t winograd_chunk = 16;

struct WinogradInput {
  const float* from;   ///< [N, height, width, channels]
  const float* zeros;  ///< as many as there are channels
  int64_t channels;
};

/// What a panel's sums are made of.
struct WinogradFactors {
  const float* values;   ///< [parts][16][chunks][rows][winograd_chunk]
  const float* weights;  ///< [16][chunks * winograd_chunk][panel]
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

/// For one set of vector instructions.
struct WinogradKernels {
  /// Output channels that are computed together; 0 where there are no vectors.
  int64_t panel;
  /// Tiles that are, at most: a block has as few parts as it can have, which differ by one.
  int64_t rows;

  /// to: the values of WinogradFactors.
  void (*transform_input)(const WinogradBlock& block, const WinogradInput& input, float* to);
  /// sums: [16][count][panel].
  void (*multiply)(const WinogradBlock& block, const WinogradFactors& factors, float* sums);
  void (*transform_output)(const WinogradBlock& block, const float* sums,
                           const WinogradOutput& output);
};

/// The best that this CPU has.
const WinogradKernels& winograd_kernels();

}  // namespace composer

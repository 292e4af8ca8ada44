// How the tiles of a convolution by Winograd's algorithm are divided among threads.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "inference/winograd_tiles.h"
#include "nn/network/operations.h"

namespace composer {

/// Whether the convolution is 3 x 3 with stride 1, without dilation and groups.
bool is_for_winograd(const Conv2dOptions& options);

/// input_shape: [N, C, H, W].
WinogradTiles winograd_tiles(int64_t size, const std::vector<int64_t>& input_shape,
                             std::array<int64_t, 2> padding);

struct WinogradShare {
  int64_t index, count;

  int64_t begin(int64_t all) const { return index * all / count; }
  int64_t end(int64_t all) const { return (index + 1) * all / count; }
};

struct WinogradWork {
  /// Processes a share of a block. values: the block's transformed input.
  using Step = std::function<void(const WinogradBlock& block, WinogradShare share, void* values)>;

  const WinogradTiles& tiles;
  int64_t count;       ///< number of tiles, at least one
  int64_t most_tiles;  ///< most tiles that a block should have
  int64_t panels;      ///< panels of output channels, which the shares of a block divide
  std::function<int64_t(int64_t tiles)> value_bytes;
  Step transform, multiply;
};

/// Runs each block on one thread. Where there are more threads than blocks, several threads share a
/// block: they transform its input together, then each computes some panels.
void compute_winograd(const WinogradWork& work);

}  // namespace composer

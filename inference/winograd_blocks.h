// How the tiles of a convolution by Winograd's algorithm are shared out among threads.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "inference/winograd_tiles.h"
#include "nn/network/operations.h"

namespace composer {

/// 3 x 3 of stride 1, without dilation and groups.
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
  /// Of a block, a share of it: `values` has the block's transformed input.
  using Step = std::function<void(const WinogradBlock& block, WinogradShare share, void* values)>;

  const WinogradTiles& tiles;
  int64_t count;       ///< of tiles, at least one
  int64_t most_tiles;  ///< that a block should have
  int64_t panels;      ///< of output channels, which a block's shares take
  std::function<int64_t(int64_t tiles)> value_bytes;
  Step transform, multiply;
};

/// Block by block by one thread each. Where there are more threads than blocks several share a
/// block: first they transform its input, then each takes some panels.
void compute_winograd(const WinogradWork& work);

}  // namespace composer

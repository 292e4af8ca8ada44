#include "inference/winograd_blocks.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>

namespace composer {

bool is_for_winograd(const Conv2dOptions& options) {
  constexpr std::array<int64_t, 2> one{1, 1}, three{3, 3};
  return options.kernel == three && options.stride == one && options.dilation == one &&
         options.groups == 1;
}

WinogradTiles winograd_tiles(int64_t size, const std::vector<int64_t>& input_shape,
                             std::array<int64_t, 2> padding) {
  const int64_t height = input_shape[2], width = input_shape[3];
  return {.size = size,
          .height = height,
          .width = width,
          .padding_y = padding[0],
          .padding_x = padding[1],
          .out_height = height + 2 * padding[0] - 2,
          .out_width = width + 2 * padding[1] - 2};
}

void compute_winograd(const WinogradWork& work) {
  const int64_t threads = at::in_parallel_region() ? 1 : at::get_num_threads();
  int64_t blocks = at::divup(work.count, work.most_tiles);
  const int64_t shares = std::min(at::divup(threads, blocks), work.panels);
  const int64_t together = at::divup(threads, shares);
  blocks = std::min(at::divup(blocks, together) * together, work.count);
  const auto block_at = [&](int64_t index) {
    const int64_t first = index * work.count / blocks;
    return WinogradBlock{work.tiles, first, (index + 1) * work.count / blocks - first};
  };
  const int64_t bytes = work.value_bytes(at::divup(work.count, blocks));
  if (shares == 1) {
    at::parallel_for(0, blocks, 1, [&](int64_t begin, int64_t end) {
      const auto values = at::empty({bytes}, at::kByte);
      for (int64_t i = begin; i < end; ++i)
        for (const auto* step : {&work.transform, &work.multiply})
          (*step)(block_at(i), {0, 1}, values.mutable_data_ptr());
    });
    return;
  }
  const auto values = at::empty({blocks, bytes}, at::kByte);
  for (const auto* step : {&work.transform, &work.multiply})
    at::parallel_for(0, blocks * shares, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        (*step)(block_at(i / shares), {i % shares, shares},
                values.mutable_data_ptr<uint8_t>() + i / shares * bytes);
    });
}

}  // namespace composer

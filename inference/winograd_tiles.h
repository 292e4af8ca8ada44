// The tiles of a 3 x 3 convolution by Winograd's algorithm. Their functions become part of their
// callers, which may be compiled for other processors than the program.
#pragma once

#include <cstdint>

namespace composer {

/// The tiles of a number of images, image by image and row by row. Those at the end of a row or a
/// column may reach beyond the output.
struct WinogradTiles {
  int64_t size;                   ///< of a tile either way, in output pixels: 2 or 4
  int64_t height, width;          ///< of the input
  int64_t padding_y, padding_x;   ///< on either side
  int64_t out_height, out_width;  ///< of the output, which has stride 1

  [[gnu::always_inline]] int64_t columns() const { return (out_width + size - 1) / size; }
  [[gnu::always_inline]] int64_t of_image() const {
    return (out_height + size - 1) / size * columns();
  }
  /// Of each tile, which are multiplied.
  [[gnu::always_inline]] int64_t values() const { return (size + 2) * (size + 2); }
};

/// A tile's output pixels' place.
struct WinogradPlace {
  int64_t image, y, x;

  [[gnu::always_inline]] WinogradPlace(const WinogradTiles& tiles, int64_t tile)
      : image(tile / tiles.of_image()),
        y(tile % tiles.of_image() / tiles.columns() * tiles.size),
        x(tile % tiles.columns() * tiles.size) {}
};

/// The side x side pixels that a tile is computed from, row by row: `outside` where the image has
/// none. images: [N, height, width, channels].
template <int64_t side, class T>
[[gnu::always_inline]] inline void winograd_pixels(const WinogradTiles& tiles, int64_t tile,
                                                   const T* images, const T* outside,
                                                   int64_t channels, const T** to) {
  const WinogradPlace place(tiles, tile);
  for (int64_t i = 0; i < side; ++i)
    for (int64_t j = 0; j < side; ++j) {
      const int64_t y = place.y - tiles.padding_y + i, x = place.x - tiles.padding_x + j;
      const bool inside = y >= 0 && y < tiles.height && x >= 0 && x < tiles.width;
      const int64_t pixel = (place.image * tiles.height + y) * tiles.width + x;
      *to++ = inside ? images + pixel * channels : outside;
    }
}

/// Tiles [first, first + count), which are computed together.
struct WinogradBlock {
  const WinogradTiles& tiles;
  int64_t first, count;
};

/// Tiles of a block that are multiplied together, of `most` at most: a block has as few parts as it
/// can have, which differ by one.
struct WinogradPart {
  int64_t begin, end;

  [[gnu::always_inline]] static int64_t count(const WinogradBlock& block, int64_t most) {
    return (block.count + most - 1) / most;
  }
  [[gnu::always_inline]] WinogradPart(const WinogradBlock& block, int64_t index, int64_t most)
      : begin(index * block.count / count(block, most)),
        end((index + 1) * block.count / count(block, most)) {}
};

}  // namespace composer

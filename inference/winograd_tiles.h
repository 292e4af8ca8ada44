// The tiles of a 3 x 3 convolution by Winograd's algorithm. All functions are inlined, because
// their callers may be compiled for other instructions than the program.
#pragma once

#include <cstdint>

namespace composer {

/// The tiles of all images, image by image and row by row. The last tile of a row or a column may
/// reach beyond the output.
struct WinogradTiles {
  int64_t size;                   ///< side of a tile in output pixels: 2 or 4
  int64_t height, width;          ///< size of the input
  int64_t padding_y, padding_x;   ///< padding on each side
  int64_t out_height, out_width;  ///< size of the output, at stride 1

  [[gnu::always_inline]] int64_t columns() const { return (out_width + size - 1) / size; }
  [[gnu::always_inline]] int64_t of_image() const {
    return (out_height + size - 1) / size * columns();
  }
  /// Values of a transformed tile.
  [[gnu::always_inline]] int64_t values() const { return (size + 2) * (size + 2); }
};

/// The position of a tile's first output pixel.
struct WinogradPosition {
  int64_t image, y, x;

  [[gnu::always_inline]] WinogradPosition(const WinogradTiles& tiles, int64_t tile)
      : image(tile / tiles.of_image()),
        y(tile % tiles.of_image() / tiles.columns() * tiles.size),
        x(tile % tiles.columns() * tiles.size) {}
};

/// Pointers to the side x side input pixels of a tile, row by row; `outside` for pixels outside the
/// image. images: [N, height, width, channels].
template <int64_t side, class T>
[[gnu::always_inline]] inline void winograd_pixels(const WinogradTiles& tiles, int64_t tile,
                                                   const T* images, const T* outside,
                                                   int64_t channels, const T** to) {
  const WinogradPosition position(tiles, tile);
  for (int64_t i = 0; i < side; ++i)
    for (int64_t j = 0; j < side; ++j) {
      const int64_t y = position.y - tiles.padding_y + i, x = position.x - tiles.padding_x + j;
      const bool inside = y >= 0 && y < tiles.height && x >= 0 && x < tiles.width;
      const int64_t pixel = (position.image * tiles.height + y) * tiles.width + x;
      *to++ = inside ? images + pixel * channels : outside;
    }
}

/// Tiles [first, first + count) that are computed together.
struct WinogradBlock {
  const WinogradTiles& tiles;
  int64_t first, count;
};

/// At most `most` tiles of a block that are multiplied together. A block has as few parts as
/// possible; their sizes differ by at most one.
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

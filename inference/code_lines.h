// A convolution's input as tiles of int8_amx.h read it.
#pragma once

#include <cstdint>
#include <vector>

#include "inference/int8_amx.h"
#include "nn/network/operations.h"

namespace composer {

/// The output's pixels line by line, in one long row in which neighbours' inputs are one stride
/// apart and each row of the kernel is a run of bytes. The images are such a row already where the
/// kernel is one pixel of whole steps; else lines are copied, with padding about them.
class CodeLines {
 public:
  /// How outputs are shared out among tiles.
  struct Layout {
    int most_rows;  ///< of a tile
    bool by_line;   ///< a tile's are of one line where lines are copied: none is computed in vain
  };

  /// input: [N, C, H, W] with any N. padding: the code around the images.
  CodeLines(const Conv2dOptions& options, const std::vector<int64_t>& input, uint8_t padding,
            Layout layout);

  int64_t rows() const { return rows_; }        ///< of an image's output
  int64_t columns() const { return columns_; }  ///< of a line of it
  /// By which tiles are found: rows of outputs, or where nothing is copied pixels.
  int64_t lines(int64_t images) const { return images * rows_ * (copies_ ? 1 : columns_); }

  int64_t channels() const { return channels_; }
  /// Bytes in a run, of so many runs.
  int64_t run() const { return kernel_width_ * channels_; }
  int64_t runs() const { return kernel_height_; }

  int64_t pixel_stride() const { return step_ * channels_; }
  /// Where the 64 values of each step are: for each run, as many as it has, the last beyond its end
  /// where it is no multiple.
  std::vector<int64_t> steps() const;
  /// How many times 4 values each has.
  std::vector<int8_t> step_quads() const;

  /// How many lines are worth taking at one time.
  int64_t most_lines() const;
  /// Of memory for so many lines' copies.
  int64_t bytes(int64_t lines) const;

  struct Tiles {
    std::vector<int8_amx::PixelTile> all;
    int rows = 0;  ///< of each
  };
  /// Of lines begin to end, end - begin >= 1, at most most_lines(). images: [N, H, W, C]. copies:
  /// bytes(end - begin), what the tiles may point to.
  void take(const uint8_t* images, int64_t begin, int64_t end, uint8_t* copies, Tiles& tiles) const;

 private:
  /// Lines of one image, one after another.
  struct Segment {
    const uint8_t* image;
    int64_t first, count;  ///< rows of outputs
    int64_t place;         ///< of the first output
  };

  int64_t pitch() const { return line_ / step_; }  ///< positions of a line
  int64_t positions(int64_t lines) const { return (lines - 1) * pitch() + columns_; }
  int64_t segments(int64_t lines) const;
  int64_t segment_bytes() const;
  int64_t plane_bytes() const { return (segment_rows_ + reach_) * line_ * channels_; }

  void copy_segment(const Segment& segment, uint8_t* to) const;
  void copy_line(const uint8_t* image, int64_t row, uint8_t* to) const;
  void copy_pixels(const uint8_t* line, uint8_t* to) const;
  int rows_of_tiles(int64_t positions) const;
  void add_tiles(const uint8_t* pixels, int64_t positions, int64_t place, Tiles& tiles) const;
  void add_tiles_by_line(const uint8_t* pixels, int64_t lines, int64_t place, Tiles& tiles) const;

  Layout layout_;
  int64_t channels_, height_, width_;
  int64_t kernel_height_, kernel_width_, stride_height_, stride_width_;
  int64_t above_, before_;  ///< padding
  int64_t rows_, columns_;
  uint8_t padding_;
  bool copies_, subsamples_;
  int64_t step_;            ///< pixels of a line from one output's to the next one's
  int64_t used_;            ///< of the input's width, where a line is copied as it is
  int64_t line_;            ///< pixels of a copied line
  int64_t planes_, reach_;  ///< lines lie apart by their row modulo the stride, so many beyond
  int64_t segment_rows_;    ///< of outputs, at most
};

}  // namespace composer

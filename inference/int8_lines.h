// A convolution's input in the order in which the tiles of int8_amx.h read it.
#pragma once

#include <cstdint>
#include <vector>

#include "inference/int8_amx.h"
#include "nn/network/operations.h"

namespace composer {

/// Lays the input out as one long row: the inputs of neighbouring outputs are one stride apart, and
/// each kernel row reads a run of consecutive bytes. The images are used in place where the kernel
/// is one pixel and the channels fill whole steps; otherwise lines are copied and padded.
class Int8Lines {
 public:
  /// How outputs are divided into tiles.
  struct Layout {
    int most_rows;  ///< most pixels of a tile
    bool by_line;   ///< copied lines: no tile spans two lines, so that no output is wasted
  };

  /// input: [N, C, H, W] with any N. padding: the code of the pixels around the images.
  Int8Lines(const Conv2dOptions& options, const std::vector<int64_t>& input, uint8_t padding,
            Layout layout);

  int64_t rows() const { return rows_; }        ///< output rows of an image
  int64_t columns() const { return columns_; }  ///< output columns
  /// The units by which take() counts: output rows, or output pixels where nothing is copied.
  int64_t lines(int64_t images) const { return images * rows_ * (copies_ ? 1 : columns_); }

  int64_t channels() const { return channels_; }
  /// Bytes of a run, the input of one kernel row; runs() is the number of runs.
  int64_t run() const { return kernel_width_ * channels_; }
  int64_t runs() const { return kernel_height_; }

  int64_t pixel_stride() const { return step_ * channels_; }
  /// Offset of the 64 values of each step. Each run is divided into steps; its last step may reach
  /// beyond the run's end.
  std::vector<int64_t> steps() const;
  /// Groups of 4 values in each step.
  std::vector<int8_t> step_quads() const;

  /// The most lines that take() should get at once.
  int64_t most_lines() const;
  /// Bytes of memory for the copies of `lines` lines.
  int64_t bytes(int64_t lines) const;

  struct Tiles {
    std::vector<int8_amx::PixelTile> all;
    int rows = 0;  ///< pixels of each tile
  };
  /// The tiles of lines [begin, end), at least one and at most most_lines(). images: [N, H, W, C].
  /// copies: bytes(end - begin) of memory, to which the tiles may point.
  void take(const uint8_t* images, int64_t begin, int64_t end, uint8_t* copies, Tiles& tiles) const;

 private:
  /// Consecutive output rows of one image.
  struct Segment {
    const uint8_t* image;
    int64_t first, count;  ///< output rows
    int64_t output;        ///< index of the first output
  };

  int64_t pitch() const { return line_ / step_; }  ///< outputs and padding of a line
  int64_t positions(int64_t lines) const { return (lines - 1) * pitch() + columns_; }
  int64_t segments(int64_t lines) const;
  int64_t segment_bytes() const;
  int64_t plane_bytes() const { return (segment_rows_ + reach_) * line_ * channels_; }

  void copy_segment(const Segment& segment, uint8_t* to) const;
  void copy_line(const uint8_t* image, int64_t row, uint8_t* to) const;
  void copy_pixels(const uint8_t* line, uint8_t* to) const;
  int rows_of_tiles(int64_t positions) const;
  void add_tiles(const uint8_t* pixels, int64_t positions, int64_t output, Tiles& tiles) const;
  void add_tiles_by_line(const uint8_t* pixels, int64_t lines, int64_t output, Tiles& tiles) const;

  Layout layout_;
  int64_t channels_, height_, width_;
  int64_t kernel_height_, kernel_width_, stride_height_, stride_width_;
  int64_t above_, before_;  ///< padding, in pixels
  int64_t rows_, columns_;
  uint8_t padding_;
  bool copies_, subsamples_;
  int64_t step_;            ///< pixels of a line between neighbouring outputs
  int64_t used_;            ///< input pixels of a line that is copied whole
  int64_t line_;            ///< pixels of a copied line
  int64_t planes_, reach_;  ///< lines are grouped by row modulo stride; extra lines of a group
  int64_t segment_rows_;    ///< most output rows of a segment
};

}  // namespace composer

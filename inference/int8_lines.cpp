#include "inference/int8_lines.h"

#include <algorithm>
#include <cstring>

namespace composer {
namespace {

/// Bytes of a core's own cache for the pixels of one pass over the weights.
constexpr int64_t cache_bytes = 640 << 10;

int64_t outputs(int64_t size, const Conv2dOptions& options, size_t dimension) {
  return (size + 2 * options.padding[dimension] - options.kernel[dimension]) /
             options.stride[dimension] +
         1;
}

int64_t rounded_up(int64_t value, int64_t to) { return (value + to - 1) / to * to; }

}  // namespace

Int8Lines::Int8Lines(const Conv2dOptions& options, const std::vector<int64_t>& input,
                     uint8_t padding, Layout layout)
    : layout_(layout),
      channels_(input[1]),
      height_(input[2]),
      width_(input[3]),
      kernel_height_(options.kernel[0]),
      kernel_width_(options.kernel[1]),
      stride_height_(options.stride[0]),
      stride_width_(options.stride[1]),
      above_(options.padding[0]),
      before_(options.padding[1]),
      rows_(outputs(height_, options, 0)),
      columns_(outputs(width_, options, 1)),
      padding_(padding),
      copies_(options.kernel != std::array<int64_t, 2>{1, 1} ||
              options.stride != std::array<int64_t, 2>{1, 1} ||
              options.padding != std::array<int64_t, 2>{0, 0} || channels_ % int8_amx::values != 0),
      subsamples_(kernel_width_ == 1 && stride_width_ > 1),
      step_(subsamples_ ? 1 : stride_width_),
      used_(
          std::clamp<int64_t>((columns_ - 1) * stride_width_ + kernel_width_ - before_, 0, width_)),
      planes_(std::min(stride_height_, kernel_height_)),
      reach_((kernel_height_ - 1) / stride_height_) {
  // The padding after a line is the padding before the next line.
  line_ = subsamples_ ? columns_
                      : rounded_up(std::max(before_ + used_, columns_ * stride_width_), step_);
  const int64_t row_bytes = planes_ * line_ * channels_;
  segment_rows_ = std::clamp<int64_t>(cache_bytes / row_bytes - reach_, 1, rows_);
}

std::vector<int64_t> Int8Lines::steps() const {
  std::vector<int64_t> steps;
  for (int64_t row = 0; row < kernel_height_; ++row) {
    const int64_t start =
        row % stride_height_ * plane_bytes() + row / stride_height_ * line_ * channels_;
    for (int64_t at = 0; at < run(); at += int8_amx::values) steps.push_back(start + at);
  }
  return steps;
}

std::vector<int8_t> Int8Lines::step_quads() const {
  std::vector<int8_t> quads;
  for (int64_t row = 0; row < kernel_height_; ++row)
    for (int64_t at = 0; at < run(); at += int8_amx::values)
      quads.push_back(
          static_cast<int8_t>((std::min<int64_t>(run() - at, int8_amx::values) + 3) / 4));
  return quads;
}

int64_t Int8Lines::most_lines() const {
  if (!copies_) return std::max<int64_t>(cache_bytes / channels_, int8_amx::pixels);
  return std::max<int64_t>(cache_bytes / segment_bytes(), 1) * segment_rows_;
}

int64_t Int8Lines::segment_bytes() const { return planes_ * plane_bytes() + before_ * channels_; }

/// The most segments, as a segment ends where an image ends.
int64_t Int8Lines::segments(int64_t lines) const {
  return lines / segment_rows_ + lines / rows_ + 2;
}

int64_t Int8Lines::bytes(int64_t lines) const {
  if (!copies_) return 0;
  // Tiles may read beyond the last pixel.
  const int64_t beyond = (int8_amx::pixels * step_ + kernel_width_) * channels_;
  return segments(lines) * segment_bytes() + beyond + int8_amx::values;
}

void Int8Lines::take(const uint8_t* images, int64_t begin, int64_t end, uint8_t* copies,
                     Tiles& tiles) const {
  tiles.all.clear();
  if (!copies_) {
    tiles.rows = rows_of_tiles(end - begin);
    return add_tiles(images + begin * channels_, end - begin, begin, tiles);
  }
  tiles.rows =
      rows_of_tiles(layout_.by_line ? columns_ : positions(std::min(end - begin, segment_rows_)));
  for (int64_t line = begin; line < end; copies += segment_bytes()) {
    const int64_t image = line / rows_, first = line % rows_;
    const Segment segment{
        .image = images + image * height_ * width_ * channels_,
        .first = first,
        .count = std::min({end - line, rows_ - first, segment_rows_}),
        .output = line * columns_,
    };
    copy_segment(segment, copies);
    if (layout_.by_line)
      add_tiles_by_line(copies, segment.count, segment.output, tiles);
    else
      add_tiles(copies, positions(segment.count), segment.output, tiles);
    line += segment.count;
  }
}

/// The pixels per tile that divide the positions evenly.
int Int8Lines::rows_of_tiles(int64_t positions) const {
  const int64_t tiles = (positions + layout_.most_rows - 1) / layout_.most_rows;
  return static_cast<int>((positions + tiles - 1) / tiles);
}

void Int8Lines::add_tiles_by_line(const uint8_t* pixels, int64_t lines, int64_t output,
                                  Tiles& tiles) const {
  for (int64_t line = 0; line < lines; ++line, output += columns_)
    for (int64_t first = 0; first < columns_; first += tiles.rows) {
      auto& tile = tiles.all.emplace_back();
      tile.first = pixels + (line * pitch() + first) * pixel_stride();
      std::ranges::fill(tile.indices, -1);
      const auto there = std::min<int64_t>(tiles.rows, columns_ - first);
      for (int64_t i = 0; i < there; ++i)
        tile.indices[i] = static_cast<int32_t>(output + first + i);
      tile.follows = there == tiles.rows;
    }
}

void Int8Lines::add_tiles(const uint8_t* pixels, int64_t positions, int64_t output,
                          Tiles& tiles) const {
  const int64_t pitch = copies_ ? this->pitch() : 1, columns = copies_ ? columns_ : 1;
  int64_t column = 0;
  for (int64_t first = 0; first < positions; first += tiles.rows) {
    // Without copies no pixel may be read beyond the images: the last tile repeats earlier pixels.
    const int64_t back = copies_ ? 0 : std::max<int64_t>(first + tiles.rows - positions, 0);
    auto& tile = tiles.all.emplace_back();
    tile.first = pixels + (first - back) * pixel_stride();
    std::ranges::fill(tile.indices, -1);
    tile.follows = true;
    for (int64_t i = 0; i < tiles.rows; ++i) {
      const bool there = i >= back && first - back + i < positions;
      tile.follows &= there && column < columns;
      if (!there) continue;
      if (column < columns) tile.indices[i] = static_cast<int32_t>(output++);
      if (++column == pitch) column = 0;
    }
  }
}

void Int8Lines::copy_segment(const Segment& segment, uint8_t* to) const {
  for (int64_t plane = 0; plane < planes_; ++plane) {
    uint8_t* line = to + plane * plane_bytes();
    // The last plane may need a line less; the extra line is padding or a line of the image.
    for (int64_t i = 0; i < segment.count + reach_; ++i, line += line_ * channels_)
      copy_line(segment.image, (segment.first + i) * stride_height_ + plane - above_, line);
    std::memset(line, padding_, static_cast<size_t>(before_ * channels_));
  }
}

void Int8Lines::copy_line(const uint8_t* image, int64_t row, uint8_t* to) const {
  const auto bytes_of = [this](int64_t count) { return static_cast<size_t>(count * channels_); };
  if (row < 0 || row >= height_) {
    std::memset(to, padding_, bytes_of(line_));
    return;
  }
  const uint8_t* const line = image + row * width_ * channels_;
  if (subsamples_) return copy_pixels(line, to);
  std::memset(to, padding_, bytes_of(before_));
  std::memcpy(to + before_ * channels_, line, bytes_of(used_));
  std::memset(to + (before_ + used_) * channels_, padding_, bytes_of(line_ - before_ - used_));
}

/// Copies the pixels that a kernel of one column reads.
void Int8Lines::copy_pixels(const uint8_t* line, uint8_t* to) const {
  for (int64_t i = 0; i < columns_; ++i, to += channels_) {
    const int64_t column = i * stride_width_ - before_;
    if (column < 0 || column >= width_)
      std::memset(to, padding_, static_cast<size_t>(channels_));
    else
      std::memcpy(to, line + column * channels_, static_cast<size_t>(channels_));
  }
}

}  // namespace composer

#include "data/pixels/resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "data/pixels/copy.h"
#include "data/pixels/resize_passes.h"

namespace composer {
namespace {

enum class Way { copy, pillow, linear, box, whole_factors };

void check(ResizeFilter filter, ImageSize image, const Area& area, ImageSize size,
           const Box& window) {
  const auto whole = [](double value) { return value == std::floor(value); };
  const bool inside = area.top >= 0 && area.left >= 0 && area.height > 0 && area.width > 0 &&
                      area.top + area.height <= static_cast<double>(image.height) &&
                      area.left + area.width <= static_cast<double>(image.width);
  const bool wanted = window.top >= 0 && window.left >= 0 && window.height > 0 &&
                      window.width > 0 && window.top + window.height <= size.height &&
                      window.left + window.width <= size.width;
  const bool aligned =
      whole(area.top) && whole(area.left) && whole(area.height) && whole(area.width);
  if (!inside) throw RunError("resize: the area does not lie in the image");
  if (!wanted) throw RunError("resize: the window does not lie in the result");
  if (filter == ResizeFilter::area && !aligned)
    throw RunError("resize: the area filter takes whole pixels only");
}

Way way_of(ResizeFilter filter, const Area& area, ImageSize size) {
  if (filter != ResizeFilter::area) return Way::pillow;
  const auto height = static_cast<int64_t>(area.height), width = static_cast<int64_t>(area.width);
  if (height < size.height || width < size.width) return Way::linear;
  if (height % size.height != 0 || width % size.width != 0) return Way::box;
  return height == size.height && width == size.width ? Way::copy : Way::whole_factors;
}

/// Rows that may be read past their end: the last rows are copied to a larger buffer.
class SafeRows {
 public:
  SafeRows(const ImageView& image, int64_t bytes_read, std::vector<uint8_t>& room)
      : image_(image),
        end_(image.row(image.height - 1) + image.width * image.channels),
        bytes_read_(bytes_read),
        room_(room) {}

  const uint8_t* row(int64_t y) {
    const uint8_t* from = image_.row(y);
    if (end_ - from >= bytes_read_) return from;
    const int64_t bytes = image_.width * image_.channels;
    if (static_cast<int64_t>(room_.size()) < bytes_read_ + bytes)
      room_.resize(static_cast<size_t>(bytes_read_ + bytes));
    std::memcpy(room_.data(), from, static_cast<size_t>(bytes));
    return room_.data();
  }

 private:
  const ImageView& image_;
  const uint8_t* end_;
  int64_t bytes_read_;
  std::vector<uint8_t>& room_;
};

/// Resizes along the rows first, then across them. Keeps only the rows that an output row needs.
template <class Value>
struct RowRing {
  AlignedVector<Value> values;
  std::vector<const Value*> rows;

  template <class Across, class Down>
  void run(const ImageView& image, const ResizeAxis& down_axis, int64_t n, const Across& across,
           const Down& down, std::vector<uint8_t>& room, uint8_t* out) {
    const int64_t taps = down_axis.taps, stride = (n + 63) / 64 * 64;
    values.resize(static_cast<size_t>(taps * stride));
    rows.resize(static_cast<size_t>(taps));
    SafeRows source(image, across.bytes_read(), room);
    int64_t done = 0;
    for (int64_t y = 0; y < down_axis.outputs; ++y, out += n) {
      const int64_t first = down_axis.first[static_cast<size_t>(y)];
      for (done = std::max(done, first); done < first + taps; ++done)
        across.run(source.row(done), values.data() + done % taps * stride);
      for (int64_t k = 0; k < taps; ++k)
        rows[static_cast<size_t>(k)] = values.data() + (first + k) % taps * stride;
      down(rows.data(), y, n, out);
    }
  }
};

}  // namespace

struct ResizePlan::State {
  Way way = Way::copy;
  bool vertical_first = false;
  Box needed;
  ImageSize window;
  int64_t down_factor = 1, across_factor = 1;
  ResizeAxis down, across;
  TriangleDown triangle_down;
  TriangleAcross triangle_across;
  AreaAcross<int16_t> linear_across;
  AreaAcross<float> box_across;
  RowRing<uint8_t> byte_ring;
  RowRing<int16_t> fixed_ring;
  RowRing<float> float_ring;
  std::vector<uint8_t> room;
  AlignedVector<uint8_t> line;

  void columns_first(const ImageView& image, bool flip, uint8_t* out);
  void run_pillow(const ImageView& image, bool flip, uint8_t* out);
  template <class Value>
  void run_area(const ImageView& image, bool flip, AreaAcross<Value>& pass, RowRing<Value>& ring,
                uint8_t* out);
};

ResizePlan::ResizePlan() : state_(std::make_unique<State>()) {}
ResizePlan::~ResizePlan() = default;
ResizePlan::ResizePlan(ResizePlan&&) noexcept = default;
ResizePlan& ResizePlan::operator=(ResizePlan&&) noexcept = default;

void ResizePlan::make(ResizeFilter filter, ImageSize image, const Area& area, ImageSize size,
                      const Box& window) {
  check(filter, image, area, size, window);
  State& s = *state_;
  s.way = way_of(filter, area, size);
  s.window = {window.height, window.width};
  if (s.way == Way::copy || s.way == Way::whole_factors) {
    const auto top = static_cast<int64_t>(area.top), left = static_cast<int64_t>(area.left);
    const int64_t down = s.down_factor = static_cast<int64_t>(area.height) / size.height;
    const int64_t across = s.across_factor = static_cast<int64_t>(area.width) / size.width;
    s.needed = {top + window.top * down, left + window.left * across, window.height * down,
                window.width * across};
    return;
  }
  const AxisKind kind = filter == ResizeFilter::triangle  ? AxisKind::triangle
                        : filter == ResizeFilter::bicubic ? AxisKind::bicubic
                        : s.way == Way::linear            ? AxisKind::linear
                                                          : AxisKind::box;
  s.down.make({kind, image.height, area.top, area.height, size.height, window.top, window.height});
  s.across.make({kind, image.width, area.left, area.width, size.width, window.left, window.width});
  s.needed = {s.down.begin, s.across.begin, s.down.length, s.across.length};
  // The passes round to bytes in between, so their order shows in the result: Pillow's, since its
  // version 13.
  const int64_t shorter = image.height - size.height;
  s.vertical_first = shorter > 0 && shorter > 2 * (image.width - size.width);
  if (s.way == Way::pillow && s.down.identity && s.across.identity) s.way = Way::copy;
}

const Box& ResizePlan::needed() const { return state_->needed; }

/// Columns first, then rows; or a mirror, where the rows stay as they are.
void ResizePlan::State::columns_first(const ImageView& image, bool flip, uint8_t* out) {
  const int64_t n = image.width * image.channels, row_bytes = window.width * image.channels;
  const bool direct = across.identity && !flip;
  if (!across.identity) triangle_across.prepare(across, image.channels, flip);
  const auto wanted = static_cast<size_t>(std::max(n, triangle_across.bytes_read()));
  if (line.size() < wanted) line.resize(wanted);
  auto& rows = byte_ring.rows;
  rows.resize(static_cast<size_t>(down.taps));
  for (int64_t y = 0; y < down.outputs; ++y, out += row_bytes) {
    for (int64_t k = 0; k < down.taps; ++k)
      rows[static_cast<size_t>(k)] = image.row(down.first[static_cast<size_t>(y)] + k);
    triangle_down.run(rows.data(), y, n, direct ? out : line.data());
    if (direct) continue;
    if (across.identity)
      copy_pixels({line.data(), 1, image.width, image.channels, n}, flip, out);
    else
      triangle_across.run(line.data(), out);
  }
}

void ResizePlan::State::run_pillow(const ImageView& image, bool flip, uint8_t* out) {
  const int64_t row_bytes = window.width * image.channels;
  if (!down.identity) triangle_down.prepare(down);
  if (across.identity || (vertical_first && !down.identity)) return columns_first(image, flip, out);
  triangle_across.prepare(across, image.channels, flip);
  if (!down.identity) {
    const auto rows_down = [this](auto... row) { triangle_down.run(row...); };
    return byte_ring.run(image, down, row_bytes, triangle_across, rows_down, room, out);
  }
  SafeRows source(image, triangle_across.bytes_read(), room);
  for (int64_t y = 0; y < down.outputs; ++y, out += row_bytes)
    triangle_across.run(source.row(y), out);
}

template <class Value>
void ResizePlan::State::run_area(const ImageView& image, bool flip, AreaAcross<Value>& pass,
                                 RowRing<Value>& ring, uint8_t* out) {
  pass.prepare(across, image.channels, flip);
  const auto rows_down = [this](auto... row) { area_down(down, row...); };
  ring.run(image, down, window.width * image.channels, pass, rows_down, room, out);
}

void ResizePlan::run(const ImageView& pixels, bool flip, uint8_t* out) {
  State& s = *state_;
  switch (s.way) {
    case Way::copy:
      return copy_pixels(pixels, flip, out);
    case Way::pillow:
      return s.run_pillow(pixels, flip, out);
    case Way::linear:
      return s.run_area(pixels, flip, s.linear_across, s.fixed_ring, out);
    case Way::box:
      return s.run_area(pixels, flip, s.box_across, s.float_ring, out);
    case Way::whole_factors:
      return shrink_by_whole_factors(pixels, s.window, s.down_factor, s.across_factor, flip, out);
  }
}

}  // namespace composer

// Resizes a part of an 8-bit image: make() plans the pixels and weights, run() computes once the
// pixels are decoded.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "data/pixels/image.h"

namespace composer {

enum class ResizeFilter {
  triangle,  ///< antialiased bilinear: Pillow's BILINEAR, bit by bit
  bicubic,   ///< antialiased bicubic: Pillow's BICUBIC, bit by bit
  area,      ///< OpenCV's INTER_AREA as FFCV uses it, bit by bit
};

inline const std::map<std::string, ResizeFilter> resize_filter_words{
    {"triangle", ResizeFilter::triangle},
    {"bicubic", ResizeFilter::bicubic},
    {"area", ResizeFilter::area}};

/// A part of an image whose borders may lie between pixels.
struct Area {
  double top = 0;
  double left = 0;
  double height = 0;
  double width = 0;
};

/// Resizes on one thread; keeps its memory, and an unchanged plan, from image to image.
class ResizePlan {
 public:
  ResizePlan();
  ~ResizePlan();
  ResizePlan(ResizePlan&&) noexcept;
  ResizePlan& operator=(ResizePlan&&) noexcept;

  /// The part `area` of an image of size `image` shall become `size`, of which only the part
  /// `window` is computed. triangle, bicubic: as in Pillow, pixels of the image just outside the
  /// area weigh in at its edges. area: the area's borders must be whole numbers, and no pixel
  /// outside weighs in.
  void make(ResizeFilter filter, ImageSize image, const Area& area, ImageSize size,
            const Box& window);

  /// The part of the image that run() reads.
  const Box& needed() const;

  /// pixels: the part needed(). flip: mirrors the window left-right. out: window.height *
  /// window.width * channels bytes.
  void run(const ImageView& pixels, bool flip, uint8_t* out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace composer

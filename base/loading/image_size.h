// Height and width of an image, and a part of one.
#pragma once

#include <cstdint>
#include <functional>

namespace composer {

struct ImageSize {
  int64_t height = 0;
  int64_t width = 0;
  bool operator==(const ImageSize&) const = default;
};

/// A part of an image, in pixels.
struct Box {
  int64_t top = 0;
  int64_t left = 0;
  int64_t height = 0;
  int64_t width = 0;
  bool operator==(const Box&) const = default;
};

/// Pure function: index of the batch since the start of training -> size of its images.
using SizePlan = std::function<ImageSize(int64_t batch)>;

}  // namespace composer

// Height and width of an image.
#pragma once

#include <cstdint>

namespace composer {

struct ImageSize {
  int64_t height = 0;
  int64_t width = 0;
  bool operator==(const ImageSize&) const = default;
};

}  // namespace composer

#include "data/samples/ffcv_crop.h"

#include <algorithm>

namespace composer {

Box ffcv_center_crop(ImageSize image, double ratio) {
  const int64_t shorter = std::min(image.height, image.width);
  const auto wanted = static_cast<int64_t>(ratio * static_cast<double>(shorter));
  const int64_t side = std::clamp<int64_t>(wanted, 1, shorter);
  return {(image.height - side) / 2, (image.width - side) / 2, side, side};
}

}  // namespace composer

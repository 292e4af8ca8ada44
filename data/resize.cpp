#include "data/resize.h"

#include "data/resize_plan.h"

namespace composer {

void resize_bilinear(const ImageView& image, const Box& box, ImageSize size, const Box& window,
                     bool flip, uint8_t* out) {
  thread_local ResizePlan plan;
  plan.make(ResizeFilter::triangle, {image.height, image.width},
            {static_cast<double>(box.top), static_cast<double>(box.left),
             static_cast<double>(box.height), static_cast<double>(box.width)},
            size, window);
  const Box& part = plan.needed();
  plan.run(image.crop(part.top, part.left, part.height, part.width), flip, out);
}

void resize_bilinear(const ImageView& image, ImageSize size, bool flip, uint8_t* out) {
  resize_bilinear(image, {0, 0, image.height, image.width}, size, {0, 0, size.height, size.width},
                  flip, out);
}

}  // namespace composer

#include "algorithms/randaugment.h"

#include "algorithms/augmentation/primitives.h"

namespace composer {

Steps draw_randaugment(Random& random, ImageSize size, const RandAugment::Params& params) {
  Steps steps(static_cast<size_t>(params.depth));
  for (auto& step : steps)
    step =
        draw_primitive(random, size, static_cast<double>(params.severity), params.augmentation_set);
  return steps;
}

RandAugment::RandAugment(const Params& params)
    : DrawnPerImage("randaugment.image", params.where, [params](Random& random, ImageSize size) {
        return draw_randaugment(random, size, params);
      }) {}

}  // namespace composer

#include "algorithms/trivialaugment.h"

#include "algorithms/augmentation/primitives.h"

namespace composer {
namespace {

constexpr std::array ops = {ImageOp::identity,     ImageOp::shear_x,     ImageOp::shear_y,
                            ImageOp::translate_x,  ImageOp::translate_y, ImageOp::rotate,
                            ImageOp::brightness,   ImageOp::color,       ImageOp::contrast,
                            ImageOp::sharpness,    ImageOp::posterize,   ImageOp::solarize,
                            ImageOp::autocontrast, ImageOp::equalize};

/// The largest magnitude of an operation whose magnitude has a sign; else 0.
double largest(ImageOp op) {
  switch (op) {
    case ImageOp::shear_x:
    case ImageOp::shear_y:
    case ImageOp::brightness:
    case ImageOp::color:
    case ImageOp::contrast:
    case ImageOp::sharpness:
      return 0.99;
    case ImageOp::translate_x:
    case ImageOp::translate_y:
      return 32;
    case ImageOp::rotate:
      return 135;
    default:
      return 0;
  }
}

}  // namespace

Steps draw_trivialaugment(Random& random, const TrivialAugment::Params& params) {
  const auto op = ops[static_cast<size_t>(random.below(ops.size()))];
  const int64_t bins = params.num_magnitude_bins, bin = random.below(bins);
  if (op == ImageOp::posterize) return {{op, posterize_bits(6, bins, bin)}};
  if (op == ImageOp::solarize) return {{op, evenly_spaced(255, 0, bins, bin)}};
  const double magnitude = evenly_spaced(0, largest(op), bins, bin);
  return {{op, random.below(2) == 0 ? magnitude : -magnitude}};
}

TrivialAugment::TrivialAugment(const Params& params)
    : DrawnPerImage("trivialaugment.image", params.where, [params](Random& random, ImageSize) {
        return draw_trivialaugment(random, params);
      }) {}

}  // namespace composer

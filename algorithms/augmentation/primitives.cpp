#include "algorithms/augmentation/primitives.h"

namespace composer {
namespace {

constexpr std::array ops = {ImageOp::autocontrast, ImageOp::equalize,    ImageOp::posterize,
                            ImageOp::rotate,       ImageOp::solarize,    ImageOp::shear_x,
                            ImageOp::shear_y,      ImageOp::translate_x, ImageOp::translate_y,
                            ImageOp::color,        ImageOp::contrast,    ImageOp::brightness,
                            ImageOp::sharpness};
constexpr int64_t safe_ops = 9;

double with_sign(double magnitude, Random& random) {
  return random.below(2) == 0 ? magnitude : -magnitude;
}

/// A factor below or above 1, equally likely; 1 changes nothing.
double symmetric_factor(ImageOp op, double severity, Random& random) {
  if (random.below(2) == 0) return random.uniform(1 - 0.09 * severity, 1);
  const double factor = random.uniform(1, std::max(severity, 1.0));
  return op == ImageOp::brightness ? factor * 0.75 : factor;
}

}  // namespace

ImageStep draw_primitive(Random& random, ImageSize size, double severity, const std::string& set) {
  const auto n = set == "safe" ? safe_ops : static_cast<int64_t>(ops.size());
  const auto op = ops[static_cast<size_t>(random.below(n))];
  const double level = random.uniform(0.1, severity) / 10;
  constexpr auto bilinear = Interpolation::bilinear;
  switch (op) {
    case ImageOp::posterize:
      return {op, 4 - std::trunc(level * 4)};
    case ImageOp::rotate:
      return {op, with_sign(std::trunc(level * 30), random), bilinear};
    case ImageOp::solarize:
      return {op, 256 - std::trunc(level * 256)};
    case ImageOp::shear_x:
    case ImageOp::shear_y:
      return {op, with_sign(level * 0.3, random), bilinear};
    case ImageOp::translate_x:
      return {op, with_sign(std::trunc(level * static_cast<double>(size.width) / 3), random)};
    case ImageOp::translate_y:
      return {op, with_sign(std::trunc(level * static_cast<double>(size.height) / 3), random)};
    case ImageOp::color:
    case ImageOp::contrast:
    case ImageOp::brightness:
    case ImageOp::sharpness:
      return {op,
              (set == "original" ? level * 1.8 + 0.1 : symmetric_factor(op, severity, random)) - 1};
    default:
      return {op};
  }
}

float evenly_spaced(double first, double last, int64_t n, int64_t i) {
  const auto low = static_cast<float>(first), high = static_cast<float>(last);
  const double step = (high - low) / static_cast<float>(n - 1);
  const double value = i < n / 2 ? low + step * static_cast<double>(i)
                                 : high - step * static_cast<double>(n - 1 - i);
  return static_cast<float>(value);
}

double posterize_bits(double most, int64_t n, int64_t i) {
  const auto steps_a_bit = static_cast<float>(static_cast<double>(n - 1) / most);
  return 8 - std::nearbyint(static_cast<float>(i) / steps_a_bit);
}

}  // namespace composer

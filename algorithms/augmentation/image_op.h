// Photometric and geometric operations on single images, of which randaugment, trivialaugment,
// autoaugment and augmix consist (Cubuk et al. 2018, arXiv:1805.09501).
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "base/loading/sample_transform.h"

namespace composer {

enum class ImageOp {
  identity,
  shear_x,
  shear_y,
  translate_x,
  translate_y,
  rotate,
  brightness,
  color,
  contrast,
  sharpness,
  posterize,
  solarize,
  autocontrast,
  equalize,
  invert,
};

/// Indexed by ImageOp.
inline constexpr std::array<std::string_view, 15> image_op_names = {
    "identity",  "shear_x",    "shear_y",      "translate_x", "translate_y",
    "rotate",    "brightness", "color",        "contrast",    "sharpness",
    "posterize", "solarize",   "autocontrast", "equalize",    "invert"};

/// How shears, translations and rotations read between pixels; other operations ignore it.
enum class Interpolation { nearest, bilinear };

/// One operation. The meaning of the magnitude depends on op:
///   shear_x, shear_y           tangent of the angle; positive: lower rows to the left,
///                              columns on the right up; the corner at the upper left stays
///   translate_x, translate_y   pixels to the right or down, either sign; the fraction is cut off
///   rotate                     degrees counter-clockwise about the centre
///   brightness, color, contrast, sharpness   factor - 1, at least -1; 0 changes nothing
///   posterize                  bits to keep, 0 to 8; the fraction is cut off
///   solarize                   values from this on are inverted, 0 to 256
///   identity, autocontrast, equalize, invert   not used
struct ImageStep {
  ImageOp op = ImageOp::identity;
  double magnitude = 0;
  Interpolation interpolation = Interpolation::nearest;
  bool operator==(const ImageStep&) const = default;
};

using Steps = std::vector<ImageStep>;

/// AugMix of an image x: each chain is applied to x, the results are averaged with `weights`, which
/// add up to 1, and the result is (1 - mixing) * x + mixing * average, computed in float and
/// truncated.
struct AugMixDraw {
  std::vector<Steps> chains;
  std::vector<double> weights;
  double mixing = 0;
};

/// Changes `image` in place; pixels from outside the image are 0. The pixels are those of
/// torchvision 0.26's autoaugment._apply_op on uint8 tensors on the CPU, but the same on every
/// processor: torchvision's rounding half-way between two pixels or two grey levels depends on the
/// processor.
void apply(ImageOp op, double magnitude, const MutableImage& image,
           Interpolation interpolation = Interpolation::nearest);

/// Applies the steps in order.
void apply_draw(const Steps& steps, const MutableImage& image);

/// See AugMixDraw.
void apply_draw(const AugMixDraw& draw, const MutableImage& image);

}  // namespace composer

// The photometric and geometric changes of single images out of which randaugment, trivialaugment,
// autoaugment and augmix are made (Cubuk et al. 2018, arXiv:1805.09501).
#pragma once

#include <array>
#include <cstdint>
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

/// By the value of ImageOp.
inline constexpr std::array<std::string_view, 15> image_op_names = {
    "identity",  "shear_x",    "shear_y",      "translate_x", "translate_y",
    "rotate",    "brightness", "color",        "contrast",    "sharpness",
    "posterize", "solarize",   "autocontrast", "equalize",    "invert"};

/// How shears, translations and rotations read between pixels. Other ops do not care.
enum class Interpolation { nearest, bilinear };

/// One change. What the magnitude is depends on the op:
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

/// What AugMix does to an image x: each chain is applied to x, the results are averaged by
/// `weights` (which add up to 1), and the outcome is (1 - mixing) * x + mixing * average, computed
/// in float and truncated.
struct AugMixDraw {
  std::vector<Steps> chains;
  std::vector<double> weights;
  double mixing = 0;
};

/// Changes `image` in place; what comes from outside is 0. The pixels are those of torchvision
/// 0.26's autoaugment._apply_op on uint8 tensors on the CPU, and the same on every processor.
/// torchvision's are not: where one lies half-way between two others, or a bilinear one between
/// two grey levels, its processor's rounding decides.
void apply(ImageOp op, double magnitude, const MutableImage& image,
           Interpolation interpolation = Interpolation::nearest);

/// The steps one after the other.
void apply_draw(const Steps& steps, const MutableImage& image);

/// See AugMixDraw.
void apply_draw(const AugMixDraw& draw, const MutableImage& image);

}  // namespace composer

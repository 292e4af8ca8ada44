// Random changes of an image's pixels: FFCV's (cutout, brightness, contrast, saturation) and
// torchvision's (erasing, grayscale, solarize). Each is a function of explicit numbers, a law by
// which those are drawn, and a transform for Loader::add_transform.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/loading/sample_transform.h"
#include "base/random.h"
#include "data/pixels/image.h"

namespace composer {

using Rgb = std::array<uint8_t, 3>;  ///< images with one channel use the first value

/// Paints the box, which must lie in the image.
void fill_box(const MutableImage& image, const Box& box, const Rgb& fill);

// FFCV's colour operations: the image blended with black, with its mean luma or with its luma by
// `factor` (1 leaves it as it is), in double, cut to 0..255 and truncated. Luma is .2989 R + .587 G
// + .114 B, truncated; with one channel the value itself, so that saturation changes nothing.
void adjust_brightness(const MutableImage& image, double factor);
void adjust_contrast(const MutableImage& image, double factor);
void adjust_saturation(const MutableImage& image, double factor);

/// Every channel becomes Pillow's luma (ITU-R 601): torchvision's RandomGrayscale.
void make_gray(const MutableImage& image);

/// Inverts the bytes from `threshold` on, 0..256.
void solarize(const MutableImage& image, int threshold);

/// A square of `side` pixels, at most the image's shorter side, anywhere inside.
Box draw_cutout(ImageSize image, int64_t side, Random& random);

/// Uniform in [max(0, 1 - magnitude), 1 + magnitude).
double draw_factor(double magnitude, Random& random);

/// The box that torchvision's RandomErasing covers.
struct ErasingLaw {
  double least_area = 0.02, most_area = 0.33;  ///< fractions of the image's
  double least_ratio = 0.3, most_ratio = 3.3;  ///< height : width
};

/// Nothing when ten tries gave no box smaller than the image on both sides.
std::optional<Box> draw_erasing(ImageSize image, const ErasingLaw& law, Random& random);

// Transforms; p: the probability of a change. The draws depend on the SampleKey only.
/// width: the width of the images that `side` was chosen for; smaller images get a smaller square.
/// 0: the same side for all images.
SampleTransform random_cutout(int64_t side, const Rgb& fill, double p = 1, int64_t width = 0);
SampleTransform random_flip(double p);  ///< mirrored left-right
/// The image, padded by `padding` pixels of `fill`, cropped to its size (FFCV's RandomTranslate).
SampleTransform random_translate(int64_t padding, const Rgb& fill);
SampleTransform random_brightness(double magnitude, double p = 0.5);
SampleTransform random_contrast(double magnitude, double p = 0.5);
SampleTransform random_saturation(double magnitude, double p = 0.5);
SampleTransform random_erasing(const Rgb& fill, double p = 0.5, const ErasingLaw& law = {});
SampleTransform random_grayscale(double p = 0.1);
SampleTransform random_solarize(int threshold = 128, double p = 0.5);

}  // namespace composer

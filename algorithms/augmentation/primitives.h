// Random operations and magnitudes: the thirteen operations of randaugment and augmix with MosaicML
// Composer's ranges, and the equal steps of autoaugment and trivialaugment.
#pragma once

#include <cstdint>
#include <string>

#include "algorithms/augmentation/image_op.h"
#include "base/loading/image_size.h"
#include "base/random.h"

namespace composer {

/// The help text of the hyperparameter `augmentation_set`.
inline constexpr const char* augmentation_set_doc =
    "safe: without color, contrast, brightness and sharpness, which ImageNet-C tests with; "
    "original: with those four as AutoAugment has them";

/// A random operation of the set, all equally likely. severity: in [0, 10]; the strength is drawn
/// from [0.1, severity]. set: "all"; "safe", without color, contrast, brightness and sharpness,
/// which ImageNet-C tests with; "original", with factors of these four from 0.118 to 0.18 *
/// severity + 0.1.
ImageStep draw_primitive(Random& random, ImageSize size, double severity, const std::string& set);

/// Number i of n >= 2 evenly spaced numbers from first to last, rounded to float32 as
/// torch.linspace does.
float evenly_spaced(double first, double last, int64_t n, int64_t i);

/// The bits that posterize keeps at step i of n >= 2, from 8 down to 8 - most.
double posterize_bits(double most, int64_t n, int64_t i);

}  // namespace composer

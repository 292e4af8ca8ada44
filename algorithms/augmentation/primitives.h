// The thirteen changes that randaugment and augmix draw from, with MosaicML Composer's ranges.
#pragma once

#include <string>

#include "algorithms/augmentation/image_op.h"
#include "base/loading/image_size.h"
#include "base/random.h"

namespace composer {

/// Of the hyperparameter `augmentation_set`.
inline constexpr const char* augmentation_set_doc =
    "safe: without color, contrast, brightness and sharpness, which ImageNet-C tests with; "
    "original: with those four as AutoAugment has them";

/// One of the set, each as likely.
/// severity: in [0, 10]; the strength is drawn from 0.1 to it.
/// set: "all"; "safe" leaves out color, contrast, brightness and sharpness, which ImageNet-C tests
/// with; "original" takes those four with factors from 0.118 to 0.18 * severity + 0.1.
ImageStep draw_primitive(Random& random, ImageSize size, double severity, const std::string& set);

}  // namespace composer

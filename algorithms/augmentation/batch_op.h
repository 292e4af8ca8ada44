// The changes of image_op.h on whole batches on any device, each sample with its own magnitude:
// what randaugment, trivialaugment, autoaugment and augmix use on a GPU. Torch operators only, no
// loop over images, and nothing waits for the device.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "algorithms/augmentation/image_op.h"

namespace composer {

/// images: uint8 [n, H, W, C], C is 1 or 3. magnitudes: float32 [n] on the same device; ImageStep
/// says what they are. Gives new images of the same shape: the pixels of torchvision 0.26's
/// autoaugment._apply_op on uint8 tensors, within one grey level.
at::Tensor apply(ImageOp op, const at::Tensor& images, const at::Tensor& magnitudes,
                 Interpolation interpolation = Interpolation::nearest);

/// Sample i changed by steps[i], one after the other; as many lists as images. At each step those
/// that drew the same op are gathered, changed together and put back.
at::Tensor apply_batched(const at::Tensor& images, const std::vector<Steps>& steps);

/// Sample i changed by draws[i]; see AugMixDraw.
at::Tensor augmix_batched(const at::Tensor& images, const std::vector<AugMixDraw>& draws);

}  // namespace composer

// Max pooling without stride, as a blur takes it in: its output is as large as its input, and so is
// what its gradient needs.
#pragma once

#include <ATen/ATen.h>

#include "nn/network/layers.h"

namespace composer {

/// at::max_pool2d of `input` [N, C, H, W] with stride 1 (that of `options` does not count), values
/// and gradients the same. Keeps two bytes an element for the gradient, where LibTorch keeps eight,
/// and works on parts of the batch that have at most `most_elements` elements (one sample at
/// least).
at::Tensor unstrided_max_pool(const at::Tensor& input, const Pool2dOptions& options,
                              int64_t most_elements = 1 << 27);

}  // namespace composer

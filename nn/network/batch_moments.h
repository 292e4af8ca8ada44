// Mean and variance of each channel of a batch.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "nn/network/norm_runs.h"

namespace composer {

/// Of each channel. squares: of the values' distances from the mean, summed up; not below 0.
struct Moments {
  std::vector<double> mean, squares;
};

/// In one pass over the images' memory, and as exact where the mean is large beside the deviation.
Moments batch_moments(const NormRuns& runs, const at::Tensor& images);

}  // namespace composer

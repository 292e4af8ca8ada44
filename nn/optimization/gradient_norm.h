// The norm of all gradients together, without waiting for the device.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "nn/distributed/ranks.h"

namespace composer {

/// L2, a scalar on the gradients' device. At least one gradient.
at::Tensor global_norm(const std::vector<at::Tensor>& gradients);

/// The same of the gradients on all of `ranks` together, each of which has its own ones on
/// `device`, maybe none; a float64 scalar there where they are more than one.
at::Tensor global_norm(const std::vector<at::Tensor>& gradients, const Ranks& ranks,
                       at::Device device);

/// Scales the gradients in place so that their global norm, over `ranks` that have their own ones
/// on `device`, is at most `limit` (Pascanu et al. 2013, arXiv:1211.5063).
void clip_global_norm(const std::vector<at::Tensor>& gradients, double limit,
                      const Ranks& ranks = {}, at::Device device = at::kCPU);

}  // namespace composer

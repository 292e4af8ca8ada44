// The norm of all gradients together, without waiting for the device.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "nn/distributed/ranks.h"

namespace composer {

/// The L2 norm of all gradients together, a scalar on their device. At least one gradient. With
/// several `ranks`: of the gradients of all ranks, each of which has its own ones on `device`,
/// perhaps none; a float64 scalar on `device`.
at::Tensor global_norm(const std::vector<at::Tensor>& gradients, const Ranks& ranks = {},
                       at::Device device = at::kCPU);

/// Scales the gradients in place so that global_norm(gradients, ranks, device) is at most `limit`
/// (Pascanu et al. 2013, arXiv:1211.5063).
void clip_global_norm(const std::vector<at::Tensor>& gradients, double limit,
                      const Ranks& ranks = {}, at::Device device = at::kCPU);

}  // namespace composer

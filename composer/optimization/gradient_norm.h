// The norm of all gradients together, without waiting for the device.
#pragma once

#include <ATen/ATen.h>

#include <vector>

namespace composer {

/// L2, a scalar on the gradients' device. At least one gradient.
at::Tensor global_norm(const std::vector<at::Tensor>& gradients);

/// Scales the gradients in place so that their global norm is at most `limit` (Pascanu et al. 2013,
/// arXiv:1211.5063).
void clip_global_norm(const std::vector<at::Tensor>& gradients, double limit);

}  // namespace composer

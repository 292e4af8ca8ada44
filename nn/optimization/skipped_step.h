// For updates by multi-tensor operations: what a step computes with, such that nothing changes
// where found_inf is 1, without waiting for the device.
#pragma once

#include <ATen/ATen.h>

#include <vector>

namespace composer {

/// The value of each tensor, 0 where found_inf is 1: not finite numbers too. found_inf: a float32
/// scalar on their device, or undefined, which gives `tensors` as they are.
std::vector<at::Tensor> zero_if(const at::Tensor& found_inf, std::vector<at::Tensor> tensors);
/// The same of a finite tensor.
at::Tensor zero_if(const at::Tensor& found_inf, const at::Tensor& finite);

/// tensors *= factor, unless found_inf is 1.
void multiply_unless(const at::Tensor& found_inf, const std::vector<at::Tensor>& tensors,
                     double factor);

/// Counts a step in each of the float32 scalars, unless found_inf is 1, and gives all of them,
/// float64 [n], at least 1.
at::Tensor count_unless(const at::Tensor& found_inf, const std::vector<at::Tensor>& steps);

}  // namespace composer

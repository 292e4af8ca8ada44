// Operands of updates by multi-tensor operations, such that nothing changes where found_inf is 1,
// without waiting for the device.
#pragma once

#include <ATen/ATen.h>

#include <vector>

namespace composer {

/// The tensors, or 0 where found_inf is 1, also for elements that are not finite. found_inf: a
/// float32 scalar on their device; undefined: returns `tensors`.
std::vector<at::Tensor> zero_if(const at::Tensor& found_inf, std::vector<at::Tensor> tensors);
/// The same for a finite tensor.
at::Tensor zero_if(const at::Tensor& found_inf, const at::Tensor& finite);

/// tensors *= factor, unless found_inf is 1.
void multiply_unless(const at::Tensor& found_inf, const std::vector<at::Tensor>& tensors,
                     double factor);

/// Adds 1 to each of the float32 scalars, unless found_inf is 1.
void advance_unless(const at::Tensor& found_inf, const std::vector<at::Tensor>& steps);
/// The same; returns the counts, float64 [n], at least 1.
at::Tensor count_unless(const at::Tensor& found_inf, const std::vector<at::Tensor>& steps);

}  // namespace composer

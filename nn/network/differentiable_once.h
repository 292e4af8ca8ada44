// Gradients that an autograd node computed without a graph of their own.
#pragma once

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/functions/basic_ops.h>

#include <memory>
#include <string>

namespace composer {

/// `gradients` as they are; where a graph of them is asked for, one that leads to an error: the
/// gradient of `what` cannot be differentiated again, with `instead` for advice.
inline torch::autograd::variable_list differentiable_once(torch::autograd::variable_list gradients,
                                                          const std::string& what,
                                                          const std::string& instead) {
  if (!at::GradMode::is_enabled()) return gradients;
  for (auto& gradient : gradients)
    if (gradient.defined()) gradient = gradient.detach().requires_grad_(true);
  auto error = std::make_shared<torch::autograd::DelayedError>(
      "the gradient of " + what + " cannot be differentiated again; " + instead,
      static_cast<int64_t>(gradients.size()));
  return (*error)(std::move(gradients));
}

}  // namespace composer

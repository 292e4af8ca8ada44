// Helpers of composer's own autograd nodes.
#pragma once

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/functions/basic_ops.h>

#include <memory>
#include <string>
#include <utility>

namespace composer {

template <class T>
struct HeldValue : torch::CustomClassHolder {
  explicit HeldValue(T value) : value(std::move(value)) {}
  T value;
};

/// A value of any type as an entry of AutogradContext::saved_data.
template <class T>
c10::IValue held(T value) {
  return c10::IValue::make_capsule(c10::make_intrusive<HeldValue<T>>(std::move(value)));
}

/// The value of that entry; the context owns it.
template <class T>
T& held_in(const torch::autograd::AutogradContext& context, const char* name) {
  return static_cast<HeldValue<T>&>(*context.saved_data.at(name).toCapsule()).value;
}

/// Returns `gradients`. Where autograd asks for a graph of them (create_graph), the graph leads to
/// an error: the gradient of `what` cannot be differentiated again; `instead` is the advice.
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

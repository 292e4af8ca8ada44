#include "nn/device/snapshot.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <mutex>

namespace composer {
namespace {

std::vector<at::Generator> generators_of(at::Device device) {
  std::vector<at::Generator> generators{at::globalContext().defaultGenerator(at::kCPU)};
  if (!device.is_cpu()) generators.push_back(at::globalContext().defaultGenerator(device));
  return generators;
}

}  // namespace

Snapshot::Snapshot(const std::vector<at::Tensor>& tensors) {
  const at::NoGradGuard no_grad;
  for (const auto& tensor : tensors) {
    auto& copies = by_type_[tensor.scalar_type()];
    copies.tensors.push_back(tensor);
    copies.values.push_back(at::empty_like(tensor));
  }
  for (auto& [type, copies] : by_type_) at::_foreach_copy_(copies.values, copies.tensors);
}

void Snapshot::restore() {
  const at::NoGradGuard no_grad;
  for (auto& [type, copies] : by_type_) at::_foreach_copy_(copies.tensors, copies.values);
}

std::vector<at::Tensor> generator_states(at::Device device) {
  std::vector<at::Tensor> states;
  for (auto& generator : generators_of(device)) {
    const std::lock_guard lock(generator.mutex());
    states.push_back(generator.get_state());
  }
  return states;
}

void set_generator_states(at::Device device, const std::vector<at::Tensor>& states) {
  auto generators = generators_of(device);
  for (size_t i = 0; i < std::min(generators.size(), states.size()); ++i) {
    const std::lock_guard lock(generators[i].mutex());
    generators[i].set_state(states[i]);
  }
}

}  // namespace composer

#include "nn/network/generators.h"

#include <ATen/Context.h>

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

#include "inference/quantization/simulate.h"

#include <ATen/core/grad_mode.h>

#include <cmath>

#include "inference/quantization/codes.h"

namespace composer {

Simulation::Simulation(Graph graph, Quantization quantization)
    : graph_(std::move(graph)), quantization_(std::move(quantization)) {
  const at::NoGradGuard no_grad;
  for (const auto& [weight, scales] : quantization_.weight_scales) {
    auto& value = graph_.values.at(weight);
    const auto codes = value.type == at::kChar ? value.constant : codes_of(value.constant, scales);
    value.constant = numbers_of(codes, scales);
    value.type = at::kFloat;
  }
}

Pass Simulation::begin(const at::Tensor& images, Made made) const {
  return {graph_, images, [this, made = std::move(made)](size_t value, at::Tensor& tensor) {
            if (made) made(value, tensor);
            if (const auto codes = quantization_.activations.find(value);
                codes != quantization_.activations.end())
              tensor = rounded_to_codes(tensor, codes->second, quantization_.activation_bits);
          }};
}

at::Tensor Simulation::run(const at::Tensor& images, const Made& made) const {
  auto all = begin(images, made);
  while (all.step()) {
  }
  return all.output();
}

void side_by_side(const Graph& folded, const Simulation& simulation, const at::Tensor& images,
                  const MadeTwice& made) {
  const at::NoGradGuard no_grad;
  at::Tensor exact;  // the current value of both passes
  Pass plain(folded, images, [&](size_t, at::Tensor& tensor) { exact = tensor; });
  Pass rounded = simulation.begin(images, [&](size_t value, const at::Tensor& tensor) {
    made(value, exact, tensor);
    exact.reset();
  });
  while (plain.step()) rounded.step();
}

std::map<size_t, double> signal_to_noise(const Graph& folded, const Simulation& simulation,
                                         const std::vector<at::Tensor>& images,
                                         const std::set<size_t>& values) {
  struct Power {
    double signal = 0, noise = 0;
  };
  std::map<size_t, Power> powers;
  const auto squared = [](const at::Tensor& tensor) {
    return tensor.square().sum(at::kDouble).item<double>();
  };
  for (const auto& batch : images)
    side_by_side(folded, simulation, batch,
                 [&](size_t value, const at::Tensor& exact, const at::Tensor& simulated) {
                   if (!values.contains(value)) return;
                   powers[value].signal += squared(exact);
                   powers[value].noise += squared(simulated - exact);
                 });
  std::map<size_t, double> decibels;
  for (const auto& [value, power] : powers)
    decibels[value] = 10 * std::log10(power.signal / power.noise);
  return decibels;
}

Pass::Pass(const Graph& graph, const at::Tensor& images, Made made)
    : graph_(graph),
      made_(std::move(made)),
      left_(graph.values.size(), 0),
      values_(graph.values.size()) {
  for (const auto& operation : graph.operations)
    for (const auto& input : operation.inputs)
      if (input) ++left_[*input];
  ++left_[graph.output];
  values_[graph.input] = images;
  made_(graph.input, values_[graph.input]);
}

at::Tensor Pass::read(size_t value) {
  const auto& constant = graph_.values[value].constant;
  if (constant.defined()) return constant;
  return --left_[value] == 0 ? std::exchange(values_[value], {}) : values_[value];
}

bool Pass::step() {
  if (next_ == graph_.operations.size()) return false;
  const at::NoGradGuard no_grad;
  const auto& operation = graph_.operations[next_++];
  auto& output = values_[operation.output];
  {
    std::vector<at::Tensor> inputs;
    for (const auto& input : operation.inputs)
      inputs.push_back(input ? read(*input) : at::Tensor());
    output = compute(operation, inputs);
  }
  made_(operation.output, output);
  if (left_[operation.output] == 0) output.reset();
  return true;
}

at::Tensor Pass::output() const {
  const auto& constant = graph_.values[graph_.output].constant;
  return constant.defined() ? constant : values_[graph_.output];
}

at::Tensor pass(const Graph& graph, const at::Tensor& images, const Made& made) {
  Pass all(graph, images, made);
  while (all.step()) {
  }
  return all.output();
}

}  // namespace composer

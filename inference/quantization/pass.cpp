#include "inference/quantization/pass.h"

#include <ATen/core/grad_mode.h>

#include <utility>

namespace composer {

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

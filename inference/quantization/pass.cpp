#include "inference/quantization/pass.h"

#include <ATen/core/grad_mode.h>

#include <vector>

namespace composer {

at::Tensor pass(const Graph& graph, const at::Tensor& images, const Made& made) {
  const at::NoGradGuard no_grad;
  std::vector<size_t> left(graph.values.size(), 0);  // how often each is yet read
  for (const auto& operation : graph.operations)
    for (const auto& input : operation.inputs)
      if (input) ++left[*input];
  ++left[graph.output];
  std::vector<at::Tensor> values(graph.values.size());
  values[graph.input] = images;
  made(graph.input, values[graph.input]);
  for (const auto& operation : graph.operations) {
    std::vector<at::Tensor> inputs;
    for (const auto& input : operation.inputs) {
      if (!input) {
        inputs.emplace_back();
        continue;
      }
      const auto& constant = graph.values[*input].constant;
      inputs.push_back(constant.defined() ? constant : values[*input]);
      if (--left[*input] == 0) values[*input].reset();
    }
    auto& output = values[operation.output];
    output = compute(operation, inputs);
    made(operation.output, output);
  }
  const auto& constant = graph.values[graph.output].constant;
  return constant.defined() ? constant : values[graph.output];
}

}  // namespace composer

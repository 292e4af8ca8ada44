#include "inference/quantization/bias_correction.h"

#include <ATen/core/grad_mode.h>

#include <map>

#include "inference/quantization/simulate.h"

namespace composer {
namespace {

/// [N, C, ...] -> [1, C, 1...].
at::Tensor means_of_channels(const at::Tensor& values) {
  std::vector<int64_t> others;
  for (int64_t i = 0; i < values.dim(); ++i)
    if (i != 1) others.push_back(i);
  return values.mean(others, /*keepdim=*/true);
}

void add_to_bias(Graph& graph, Graph::Operation& operation, const at::Tensor& more) {
  const bool biased = operation.inputs.size() > 2 && operation.inputs[2];
  const auto bias = biased ? graph.values[*operation.inputs[2]].constant + more : more.contiguous();
  if (biased && graph.readers(*operation.inputs[2]).size() == 1) {
    graph.values[*operation.inputs[2]].constant = bias;
    return;
  }
  operation.inputs.resize(3);
  operation.inputs[2] = graph.values.size();
  graph.values.push_back({.shape = bias.sizes().vec(),
                          .type = bias.scalar_type(),
                          .producer = {},
                          .constant = bias,
                          .name = {}});
  if (auto* options = std::get_if<Conv2dOptions>(&operation.options)) options->bias = true;
}

}  // namespace

Graph bias_corrected(Graph graph, const Quantization& quantization, const at::Tensor& images) {
  const at::NoGradGuard no_grad;
  std::map<size_t, size_t> coded;  // an output -> its operation
  for (size_t i = 0; i < graph.operations.size(); ++i) {
    if (quantization.covers(graph.operations[i])) coded[graph.operations[i].output] = i;
  }
  std::map<size_t, at::Tensor> means;
  pass(graph, images, [&](size_t value, at::Tensor& tensor) {
    if (coded.contains(value)) means[value] = means_of_channels(tensor);
  });
  Simulation(graph, quantization).run(images, [&](size_t value, at::Tensor& tensor) {
    if (!coded.contains(value)) return;
    auto& lost = means.at(value);
    lost = lost - means_of_channels(tensor);
    tensor = tensor + lost;
  });
  for (const auto& [value, operation] : coded)
    add_to_bias(graph, graph.operations[operation], means.at(value).flatten());
  return graph;
}

}  // namespace composer

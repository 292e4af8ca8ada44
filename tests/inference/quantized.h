// Quantized networks for tests, by the least and largest numbers that some images give, and what
// their codes mean, computed plainly.
#pragma once

#include <algorithm>
#include <cmath>
#include <utility>

#include "inference/fold.h"
#include "inference/fused_operation.h"
#include "networks.h"

namespace composer::test {

inline Affine affine_of(const at::Tensor& numbers, int64_t bits) {
  const double low = std::min(0.0, numbers.min().item<double>());
  const double high = std::max(0.0, numbers.max().item<double>());
  const auto most = static_cast<double>((int64_t{1} << bits) - 1);
  const double scale = std::max((high - low) / most, 1e-7);
  return {scale, std::clamp<int64_t>(std::lround(-low / scale), 0, static_cast<int64_t>(most))};
}

/// All values of a pass.
inline std::vector<at::Tensor> values_of(const Graph& graph, const at::Tensor& input,
                                         const std::function<void(size_t, at::Tensor&)>& made) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> values;
  for (const auto& value : graph.values) values.push_back(value.constant);
  values[graph.input] = input;
  made(graph.input, values[graph.input]);
  for (const auto& operation : graph.operations) {
    std::vector<at::Tensor> inputs;
    for (const auto& index : operation.inputs)
      inputs.push_back(index ? values.at(*index) : at::Tensor());
    values[operation.output] = compute(operation, inputs);
    made(operation.output, values[operation.output]);
  }
  return values;
}

/// Codes for the weights of all layers, their inputs, what is added to them, and what they make.
inline TrainedNetwork quantized(TrainedNetwork network, const at::Tensor& images,
                                int64_t bits = 8) {
  network.graph = folded(network.graph);
  auto& graph = network.graph;
  const auto values = values_of(graph, images, [](size_t, const at::Tensor&) {});
  auto& quantization = network.quantization;
  quantization.activation_bits = bits;
  const auto give = [&](size_t value) {
    if (value != graph.output) quantization.activations[value] = affine_of(values[value], bits);
  };
  for (const auto& fused : fused_operations(graph, {})) {
    const auto& operation = graph.operations[fused.operation];
    if (!has_constant_weights(graph, operation)) continue;
    give(*operation.inputs[0]), give(fused.output);
    if (fused.addend) give(*fused.addend);
    auto& weight = graph.values[*operation.inputs[1]];
    const auto scale = weight.constant.flatten(1).abs().amax(1).clamp_min(1e-7) / 127;
    std::vector<int64_t> rows(static_cast<size_t>(weight.constant.dim()), 1);
    rows[0] = -1;
    weight.constant = (weight.constant / scale.view(rows)).round().to(at::kChar);
    weight.type = at::kChar;
    quantization.weight_scales[*operation.inputs[1]] = scale;
  }
  return network;
}

/// The network by floats: weights are what their codes mean, and values that have codes are rounded
/// to them, halves to even ones.
inline at::Tensor simulated(TrainedNetwork network, const at::Tensor& images) {
  const auto& [bits, activations, scales] = network.quantization;
  for (const auto& [index, scale] : scales) {
    auto& weight = network.graph.values[index].constant;
    std::vector<int64_t> rows(static_cast<size_t>(weight.dim()), 1);
    rows[0] = -1;
    weight = weight.to(at::kFloat) * scale.view(rows);
  }
  const auto most = (int64_t{1} << bits) - 1;
  return values_of(network.graph, images,
                   [&, given = activations](size_t value, at::Tensor& numbers) {
                     const auto found = given.find(value);
                     if (found == given.end()) return;
                     const auto [scale, zero] = found->second;
                     const auto codes = ((numbers / scale).round() + zero).clamp(0, most);
                     numbers = (codes - zero) * scale;
                   })[network.graph.output];
}

}  // namespace composer::test

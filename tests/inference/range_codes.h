// Codes for a network from the ranges of its values alone: a stand-in for calibration.
#pragma once

#include <algorithm>
#include <optional>

#include "inference/fold.h"
#include "networks.h"

namespace composer::test {

inline Affine codes_of_range(const at::Tensor& x) {
  const double low = std::min(x.min().item<double>(), 0.0);
  const double high = std::max(x.max().item<double>(), 0.0);
  const double scale = std::max((high - low) / 255, 1e-6);
  return {.scale = scale, .zero_point = std::lround(-low / scale)};
}

/// The number that the value's code stands for.
inline at::Tensor rounded(const at::Tensor& x, const Affine& codes) {
  const auto zero = static_cast<double>(codes.zero_point);
  return ((x / codes.scale).round() + zero).clamp(0, 255).sub(zero).mul(codes.scale);
}

/// The graph's output; what is computed with codes is rounded, weights too. seen: gets each value.
inline at::Tensor computed_by_codes(
    const TrainedNetwork& network, const at::Tensor& images,
    const std::function<void(size_t value, const at::Tensor&)>& seen = {}) {
  const auto& graph = network.graph;
  const auto& quantization = network.quantization;
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> values(graph.values.size());
  const auto set = [&](size_t value, const at::Tensor& x) {
    const auto codes = quantization.activations.find(value);
    values[value] = codes == quantization.activations.end() ? x : rounded(x, codes->second);
    if (seen) seen(value, values[value]);
  };
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = graph.values[i].constant;
    if (const auto scales = quantization.weight_scales.find(i);
        scales != quantization.weight_scales.end()) {
      std::vector<int64_t> rows(static_cast<size_t>(values[i].dim()), 1);
      rows[0] = -1;
      values[i] = values[i].to(at::kFloat) * scales->second.view(rows);
    }
  }
  set(graph.input, images);
  for (const auto& operation : graph.operations) {
    std::vector<at::Tensor> inputs;
    for (const auto& index : operation.inputs)
      inputs.push_back(index ? values.at(*index) : at::Tensor());
    set(operation.output, compute(operation, inputs));
  }
  return values[graph.output];
}

/// Where the value goes after its operation: through a relu that alone reads it, for one.
inline size_t after_relu(const Graph& graph, size_t value) {
  const auto readers = graph.readers(value);
  return readers.size() == 1 && graph.operations[readers[0]].kind == OperationKind::relu
             ? graph.operations[readers[0]].output
             : value;
}

/// Every convolution and linear layer computes with codes; a sum is done by the layer that makes
/// its first addend.
inline TrainedNetwork with_codes(TrainedNetwork network, const at::Tensor& images) {
  network.graph = folded(network.graph);
  auto& graph = network.graph;
  auto& quantization = network.quantization;
  std::vector<size_t> coded;
  for (const auto& operation : graph.operations) {
    if (operation.kind == OperationKind::add) {
      coded.push_back(*operation.inputs[1]);
      coded.push_back(after_relu(graph, operation.output));
    }
    if (operation.kind != OperationKind::conv2d && operation.kind != OperationKind::linear)
      continue;
    coded.push_back(*operation.inputs[0]);
    auto& weight = graph.values[*operation.inputs[1]];
    const auto most = weight.constant.abs().flatten(1).amax(1).clamp_min(1e-8);
    std::vector<int64_t> rows(static_cast<size_t>(weight.constant.dim()), 1);
    rows[0] = -1;
    quantization.weight_scales[*operation.inputs[1]] = most / 127;
    weight.constant = (weight.constant / (most / 127).view(rows)).round().to(at::kChar);
    weight.type = at::kChar;
  }
  std::map<size_t, Affine> found;
  computed_by_codes(network, images, [&](size_t value, const at::Tensor& x) {
    if (std::ranges::count(coded, value) > 0) found[value] = codes_of_range(x);
  });
  quantization.activations = std::move(found);
  return network;
}

}  // namespace composer::test

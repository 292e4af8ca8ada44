#include "inference/quantization/points.h"

#include <algorithm>

#include "inference/graph/trained_network.h"

namespace composer {
namespace {

bool is_weight_alone(const Graph& graph, size_t value) {
  if (graph.values[value].type != at::kFloat || !graph.values[value].constant.defined())
    return false;
  const auto readers = graph.readers(value);
  return std::ranges::all_of(readers, [&](size_t reader) {
    const auto& operation = graph.operations[reader];
    return has_weight(operation) && operation.inputs[1] == value && operation.inputs[0] != value;
  });
}

/// The value whose codes this value has: follows max pooling and flattening, which keep codes.
size_t codes_origin(const Graph& graph, size_t value) {
  for (;;) {
    const auto producer = graph.values[value].producer;
    if (!producer) return value;
    const auto& operation = graph.operations[*producer];
    if (operation.kind != OperationKind::max_pool2d && operation.kind != OperationKind::flatten)
      return value;
    value = *operation.inputs[0];
  }
}

/// The input of a sum whose convolution computes the sum: the one that is computed last.
std::optional<size_t> summed_by(const Graph& graph, const Graph::Operation& sum,
                                const std::set<size_t>& coded) {
  std::optional<size_t> last;
  for (const auto& input : sum.inputs) {
    const auto producer = graph.values[*input].producer;
    if (!producer || !coded.contains(*producer) || !graph.only_reader(*input)) continue;
    if (graph.operations[*producer].kind != OperationKind::conv2d) continue;
    if (!last || *producer > *graph.values[*last].producer) last = *input;
  }
  return last;
}

}  // namespace

std::vector<size_t> codable_operations(const Graph& graph) {
  std::vector<size_t> operations;
  for (size_t i = 0; i < graph.operations.size(); ++i) {
    const auto& operation = graph.operations[i];
    if (!has_weight(operation)) continue;
    const auto& input = graph.values[*operation.inputs[0]];
    if (operation.kind == OperationKind::linear && input.shape.size() != 2) continue;
    if (is_weight_alone(graph, *operation.inputs[1]) && !input.constant.defined())
      operations.push_back(i);
  }
  return operations;
}

std::string layer_name(const Graph& graph, const Graph::Operation& operation) {
  const auto& weight = graph.values[*operation.inputs[1]];
  const auto below = operation.layer.empty() ? std::string() : operation.layer + ".";
  if (!weight.constant.defined()) return operation.layer;
  if (weight.name.empty()) return below + "filter";
  if (!weight.name.starts_with(below)) return operation.layer;  // the weight of another layer
  const auto parameter = weight.name.substr(below.size());
  return parameter == "weight" ? operation.layer : below + parameter;
}

std::vector<std::string> codable_layers(const Graph& graph) {
  std::vector<std::string> layers;
  for (const size_t operation : codable_operations(graph)) {
    const auto layer = layer_name(graph, graph.operations[operation]);
    if (std::ranges::find(layers, layer) == layers.end()) layers.push_back(layer);
  }
  return layers;
}

std::map<size_t, size_t> coded_values(const Graph& graph, const std::set<size_t>& coded) {
  std::map<size_t, size_t> values;
  const auto add = [&](size_t value) {
    const size_t from = codes_origin(graph, value);
    for (;; value = *graph.operations[*graph.values[value].producer].inputs[0]) {
      values[value] = from;
      if (value == from) return;
    }
  };
  for (const size_t operation : coded) add(*graph.operations[operation].inputs[0]);
  for (const auto& sum : graph.operations) {
    if (sum.kind != OperationKind::add) continue;
    const size_t left = *sum.inputs[0], right = *sum.inputs[1];
    const auto fused = summed_by(graph, sum, coded);
    if (!fused || left == right || graph.values[left].shape != graph.values[right].shape) continue;
    const size_t other = *fused == left ? right : left;
    if (graph.values[other].constant.defined()) continue;
    add(other);
    const auto reader = graph.only_reader(sum.output);
    const bool relu = reader && graph.operations[*reader].kind == OperationKind::relu;
    add(relu ? graph.operations[*reader].output : sum.output);
  }
  return values;
}

}  // namespace composer

#include "inference/graph/graph_check.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "inference/graph/output_shape.h"

namespace composer {
namespace {

constexpr int64_t kMostNumbers = int64_t{1} << 31;  // of a tensor

/// Fewest and most inputs of an operation.
std::pair<size_t, size_t> input_counts(OperationKind kind) {
  switch (kind) {
    case OperationKind::add:
    case OperationKind::multiply:
      return {2, 2};
    case OperationKind::batch_norm:
      return {5, 5};
    case OperationKind::conv2d:
    case OperationKind::linear:
      return {2, 3};
    case OperationKind::group_norm:
    case OperationKind::layer_norm:
      return {1, 3};
    case OperationKind::cat:
      return {1, SIZE_MAX};
    default:
      return {1, 1};
  }
}

void check_shape(const std::vector<int64_t>& shape) {
  int64_t numbers = 1;
  for (const int64_t size : shape) {
    if (size < 1 || size > kMostNumbers / numbers)
      throw std::invalid_argument("a value has the shape " + shape_text(shape));
    numbers *= size;
  }
}

/// Whether each value is there when it is read.
class KnownValues {
 public:
  explicit KnownValues(const Graph& graph) : known_(graph.values.size()) {
    for (size_t i = 0; i < known_.size(); ++i) known_[i] = graph.values[i].constant.defined();
    if (graph.input >= known_.size() || graph.output >= known_.size() || known_[graph.input])
      throw std::invalid_argument("its input or output is no value of it");
    known_[graph.input] = true;
  }

  void check_inputs(const Graph::Operation& operation) const {
    const auto [fewest, most] = input_counts(operation.kind);
    if (operation.inputs.size() < fewest || operation.inputs.size() > most)
      throw std::invalid_argument("has " + std::to_string(operation.inputs.size()) + " inputs");
    const bool norm = operation.kind == OperationKind::batch_norm;  // without weight and bias
    for (size_t i = 0; i < operation.inputs.size(); ++i)
      if (!operation.inputs[i] && i < fewest && !(norm && (i == 1 || i == 2)))
        throw std::invalid_argument("lacks input " + std::to_string(i));
    for (const auto& input : operation.inputs)
      if (input && (*input >= known_.size() || !known_[*input]))
        throw std::invalid_argument("reads a value that nothing made");
  }

  void add_output(const Graph::Operation& operation) {
    if (operation.output >= known_.size() || known_[operation.output])
      throw std::invalid_argument("its output is made twice, or no value");
    known_[operation.output] = true;
  }

  bool has(size_t value) const { return known_[value]; }

 private:
  std::vector<bool> known_;
};

void check_operation(const Graph& graph, const Graph::Operation& operation, KnownValues& known) {
  known.check_inputs(operation);
  if (operation.kind == OperationKind::batch_norm &&
      std::get<BatchNormOptions>(operation.options).training)
    throw std::invalid_argument("is by the batch's statistics");
  known.add_output(operation);
  const auto shape = output_shape(graph, operation);
  const auto& output = graph.values[operation.output];
  if (shape != output.shape || output.type != at::kFloat)
    throw std::invalid_argument("gives float " + shape_text(shape) + ", not " +
                                c10::toString(output.type) + " " + shape_text(output.shape));
}

}  // namespace

void check_graph(const Graph& graph) {
  KnownValues known(graph);
  for (const auto& value : graph.values) check_shape(value.shape);
  if (graph.values[graph.input].type != at::kFloat)
    throw std::invalid_argument("its input is not of type float");
  for (size_t i = 0; i < graph.operations.size(); ++i) {
    const auto& operation = graph.operations[i];
    try {
      check_operation(graph, operation, known);
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument("operations[" + std::to_string(i) + "], " +
                                  std::string(name(operation.kind)) + " of '" + operation.layer +
                                  "': " + error.what());
    }
  }
  if (!known.has(graph.output)) throw std::invalid_argument("nothing makes its output");
  const auto& shape = graph.values[graph.output].shape;
  if (shape.size() != 2 || shape[0] != 1)
    throw std::invalid_argument("its output is not [N, classes]");
}

}  // namespace composer

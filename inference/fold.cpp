#include "inference/fold.h"

#include <ATen/core/grad_mode.h>

#include "inference/quantization/codes.h"

namespace composer {
namespace {

using Operation = Graph::Operation;

/// Whether all inputs of the operation except the first are constants.
bool has_constants(const Graph& graph, const Operation& operation) {
  for (size_t i = 1; i < operation.inputs.size(); ++i)
    if (operation.inputs[i] && !graph.constant(operation, i).defined()) return false;
  return true;
}

void fold_constants(Graph& graph) {
  std::vector<Operation> left;
  for (auto& operation : graph.operations) {
    std::vector<at::Tensor> inputs;
    for (size_t i = 0; i < operation.inputs.size(); ++i)
      inputs.push_back(graph.constant(operation, i));
    bool constant = true;
    for (size_t i = 0; i < inputs.size(); ++i)
      constant = constant && (inputs[i].defined() || !operation.inputs[i]);
    if (!constant) {
      left.push_back(std::move(operation));
      continue;
    }
    auto& value = graph.values[operation.output];
    value.constant = compute(operation, inputs).contiguous();
    value.producer.reset();
  }
  graph.operations = std::move(left);
}

/// A linear function of each channel: x * factor + offset.
struct ChannelLine {
  at::Tensor factor, offset;  ///< float64 [C], or factor [1]
};

/// The operation as a linear function of each channel; the factor is undefined where it is none.
ChannelLine line_of(const Graph& graph, const Operation& operation) {
  if (operation.kind == OperationKind::scale) {
    const double factor = std::get<ScaleOptions>(operation.options).factor;
    return {at::full({1}, factor, at::kDouble), at::zeros({1}, at::kDouble)};
  }
  if (operation.kind != OperationKind::batch_norm || !has_constants(graph, operation)) return {};
  const auto number = [&](size_t input, double otherwise) {
    const auto& given = graph.constant(operation, input);
    return given.defined() ? given.to(at::kDouble) : at::full({1}, otherwise, at::kDouble);
  };
  if (!graph.constant(operation, 3).defined() || !graph.constant(operation, 4).defined()) return {};
  const double eps = std::get<BatchNormOptions>(operation.options).eps;
  const auto factor = number(1, 1) / (number(4, 1) + eps).sqrt();
  return {factor, number(2, 0) - number(3, 0) * factor};
}

/// Changes weight and bias so that the operation computes the line of its output.
void take_in(Graph& graph, Operation& operation, const ChannelLine& line) {
  const auto weight = graph.constant(operation, 1).to(at::kDouble);
  const auto& bias = graph.constant(operation, 2);
  const auto type = graph.constant(operation, 1).scalar_type();
  auto new_bias = line.offset.expand({weight.size(0)});
  if (bias.defined()) new_bias = new_bias + bias.to(at::kDouble) * line.factor;
  const auto name = [&](const char* part) {
    return operation.layer.empty() ? std::string() : operation.layer + part;
  };
  const auto new_weight =
      (weight * for_each_output(line.factor, weight.dim())).to(type).contiguous();
  const bool biased = bias.defined() || new_bias.count_nonzero().item<int64_t>() > 0;
  operation.inputs[1] = add_constant(graph, new_weight, name(".weight"));
  if (!biased) return;
  operation.inputs.resize(3);
  operation.inputs[2] = add_constant(graph, new_bias.to(type).contiguous(), name(".bias"));
  if (auto* options = std::get_if<Conv2dOptions>(&operation.options)) options->bias = true;
}

/// Replaces the value by `by` wherever it is read.
void replace(Graph& graph, size_t value, size_t by) {
  for (auto& operation : graph.operations)
    for (auto& input : operation.inputs)
      if (input == value) input = by;
  if (graph.output == value) graph.output = by;
}

void set_producers(Graph& graph) {
  for (auto& value : graph.values) value.producer.reset();
  for (size_t i = 0; i < graph.operations.size(); ++i)
    graph.values[graph.operations[i].output].producer = i;
}

/// The operation with a weight whose output only the line reads: directly, or through max pooling,
/// which commutes with a rising line. Empty where there is none.
std::optional<size_t> weighted_producer(const Graph& graph, size_t value, const ChannelLine& line) {
  for (;;) {
    const auto producer = graph.values[value].producer;
    if (!producer || !graph.only_reader(value)) return {};
    const auto& operation = graph.operations[*producer];
    if (has_weight(operation)) return has_constants(graph, operation) ? producer : std::nullopt;
    if (operation.kind != OperationKind::max_pool2d || !line.factor.gt(0).all().item<bool>())
      return {};
    value = *operation.inputs[0];
  }
}

void fold_lines(Graph& graph) {
  set_producers(graph);
  std::vector<bool> folded(graph.operations.size());
  for (size_t i = 0; i < graph.operations.size(); ++i) {
    const auto operation = graph.operations[i];
    const auto line = line_of(graph, operation);
    if (!line.factor.defined()) continue;
    const size_t input = *operation.inputs[0];
    const auto producer = weighted_producer(graph, input, line);
    if (!producer) continue;
    take_in(graph, graph.operations[*producer], line);
    replace(graph, operation.output, input);
    graph.operations[i].inputs.clear();
    folded[i] = true;
  }
  size_t i = 0;
  std::erase_if(graph.operations, [&](const Operation&) { return folded[i++]; });
}

/// Leaves out what the output does not depend on, and numbers the rest anew.
Graph compacted(const Graph& graph) {
  std::vector<bool> needed(graph.values.size());
  needed[graph.input] = needed[graph.output] = true;
  std::vector<Operation> operations;
  for (auto at = graph.operations.rbegin(); at != graph.operations.rend(); ++at) {
    if (!needed[at->output]) continue;
    for (const auto& input : at->inputs)
      if (input) needed[*input] = true;
    operations.push_back(*at);
  }
  std::reverse(operations.begin(), operations.end());
  Graph all;
  std::vector<size_t> new_index(graph.values.size());
  for (size_t i = 0; i < graph.values.size(); ++i) {
    if (!needed[i]) continue;
    new_index[i] = all.values.size();
    all.values.push_back(graph.values[i]);
  }
  for (auto& operation : operations) {
    for (auto& input : operation.inputs)
      if (input) input = new_index[*input];
    operation.output = new_index[operation.output];
  }
  all.operations = std::move(operations);
  all.input = new_index[graph.input], all.output = new_index[graph.output];
  set_producers(all);
  return all;
}

/// Where several constants have one name, only the first keeps it.
void make_names_unique(Graph& graph) {
  std::map<std::string, int> count;
  for (auto& value : graph.values)
    if (!value.name.empty() && count[value.name]++ > 0) value.name.clear();
}

}  // namespace

Graph folded(Graph graph) {
  const at::NoGradGuard no_grad;
  fold_constants(graph);
  fold_lines(graph);
  auto all = compacted(graph);
  make_names_unique(all);
  return all;
}

Graph folded(const TrainedNetwork& network) {
  return network.quantization.empty() ? folded(network.graph) : network.graph;
}

}  // namespace composer

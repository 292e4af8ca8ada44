#include "inference/fused_operation.h"

namespace composer {
namespace {

class Fusion {
 public:
  Fusion(const Graph& graph, const Quantization& quantization)
      : graph_(graph), quantization_(quantization), taken_(graph.operations.size()) {}

  std::vector<FusedOperation> all() {
    std::vector<std::pair<size_t, FusedOperation>> ordered;
    for (size_t i = 0; i < graph_.operations.size(); ++i) {
      if (taken_[i]) continue;
      const auto& chain = best_chain(i);
      for (const size_t member : chain.members) taken_[member] = true;
      // The addend may be computed after the layer.
      ordered.emplace_back(chain.members.back(), chain.fused);
    }
    std::ranges::sort(ordered, {}, &std::pair<size_t, FusedOperation>::first);
    std::vector<FusedOperation> operations;
    for (auto& [last, fused] : ordered) operations.push_back(fused);
    return operations;
  }

 private:
  struct Chain {
    FusedOperation fused;
    std::vector<size_t> members;
  };

  Chain best_chain(size_t first) const {
    const auto& operation = graph_.operations[first];
    if (!has_constant_weights(graph_, operation))
      return {{.operation = first, .addend = {}, .activation = {}, .output = operation.output},
              {first}};
    auto chain = chain_of(first, operation.kind == OperationKind::conv2d);
    const bool with_codes = quantization_.covers(operation);
    if (with_codes && chain.fused.addend &&
        !(has_codes(*chain.fused.addend) && has_codes(chain.fused.output)))
      chain = chain_of(first, false);
    return chain;
  }

  /// The longest chain of operations that can be fused.
  Chain chain_of(size_t first, bool with_sum) const {
    const auto& operation = graph_.operations[first];
    Chain chain{{.operation = first, .addend = {}, .activation = {}, .output = operation.output},
                {first}};
    auto& fused = chain.fused;
    while (const auto next = free_reader(fused.output)) {
      const auto& reader = graph_.operations[*next];
      if (with_sum && !fused.addend && reader.kind == OperationKind::add)
        fused.addend = other_summand(reader, fused.output);
      else if (takes_in(operation, fused.addend.has_value(), reader.kind))
        fused.activation = reader.kind;
      if (!fused.activation && (reader.kind != OperationKind::add || !fused.addend)) break;
      fused.output = reader.output;
      chain.members.push_back(*next);
      if (fused.activation) break;
    }
    return chain;
  }

  std::optional<size_t> free_reader(size_t value) const {
    const auto reader = graph_.only_reader(value);
    return reader && !has_codes(value) && !taken_[*reader] ? reader : std::nullopt;
  }

  /// The other summand; empty where it is a constant, the same value, or of another shape.
  std::optional<size_t> other_summand(const Graph::Operation& sum, size_t value) const {
    const size_t other = sum.inputs[0] == value ? *sum.inputs[1] : *sum.inputs[0];
    const auto& values = graph_.values;
    if (other == value || values[other].constant.defined() ||
        values[other].shape != values[value].shape)
      return {};
    return other;
  }

  bool takes_in(const Graph::Operation& layer, bool sum, OperationKind activation) const {
    return activation == OperationKind::relu ||
           ((activation == OperationKind::gelu || activation == OperationKind::sigmoid) && !sum &&
            !quantization_.covers(layer));
  }

  bool has_codes(size_t value) const { return quantization_.activations.contains(value); }

  const Graph& graph_;
  const Quantization& quantization_;
  std::vector<bool> taken_;  ///< whether each operation is part of a chain already
};

}  // namespace

bool has_constant_weights(const Graph& graph, const Graph::Operation& operation) {
  if (!has_weight(operation)) return false;
  // Those of pixels fuse nothing: Runtime computes them some rows at a time.
  if (operation.kind == OperationKind::linear &&
      graph.values[*operation.inputs[0]].shape.size() != 2)
    return false;
  return std::all_of(operation.inputs.begin() + 1, operation.inputs.end(), [&](const auto& input) {
    return !input || graph.values[*input].constant.defined();
  });
}

std::vector<FusedOperation> fused_operations(const Graph& graph, const Quantization& quantization) {
  return Fusion(graph, quantization).all();
}

}  // namespace composer

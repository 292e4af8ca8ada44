#include "nn/network/cost.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>
#include <unordered_map>

#include "nn/network/model.h"

namespace composer {
namespace {

constexpr int64_t float_bytes = 4, index_bytes = 8;

int64_t product(const std::vector<int64_t>& shape, size_t from = 0) {
  return std::accumulate(shape.begin() + static_cast<int64_t>(from), shape.end(), int64_t{1},
                         std::multiplies<>());
}

/// The window of an operation along both axes.
struct Window {
  std::array<int64_t, 2> size;  ///< elements from the window's first to its last
  std::array<int64_t, 2> stride;
};

/// Adds up a graph's costs, operation by operation.
class Accountant {
 public:
  Accountant(const Graph& graph, const Model& model, int64_t batch_size)
      : graph_(graph), batch_size_(batch_size), facts_(graph.values.size()) {
    for (const auto& item : model.named_parameters())
      trained_.emplace(item.key(), item.value().requires_grad());
    for (size_t i = 0; i < facts_.size(); ++i) {
      facts_[i].storage = i;
      const auto parameter = trained_.find(graph.values[i].name);
      facts_[i].needs_gradient = parameter != trained_.end() && parameter->second;
    }
    facts_[graph.input].from_image = true;
  }

  OperationCost next(const Graph::Operation& operation) {
    follow(operation);
    OperationCost cost;
    count_parameters(operation, cost);
    count_flops(operation, cost);
    if (facts_[operation.output].needs_gradient) cost.activation_bytes = kept_bytes(operation);
    cost.receptive_field = receptive_field(operation.output);
    return cost;
  }

 private:
  /// Properties of a value.
  struct Fact {
    bool from_image = false;      ///< its first dimension is the batch
    bool needs_gradient = false;  ///< whether a training step computes its gradient
    size_t storage = 0;           ///< index of the value whose memory it shares
    ReceptiveField field;
  };

  bool has(const Graph::Operation& operation, size_t input) const {
    return input < operation.inputs.size() && operation.inputs[input].has_value();
  }
  const Fact& fact(const Graph::Operation& operation, size_t input) const {
    return facts_[*operation.inputs[input]];
  }
  const std::vector<int64_t>& shape(const Graph::Operation& operation, size_t input) const {
    return graph_.values[*operation.inputs[input]].shape;
  }

  int64_t elements(size_t value) const {
    return product(graph_.values[value].shape) * (facts_[value].from_image ? batch_size_ : 1);
  }

  void follow(const Graph::Operation& operation) {
    Fact& output = facts_[operation.output];
    for (size_t i = 0; i < operation.inputs.size(); ++i) {
      if (!has(operation, i)) continue;
      const Fact& input = fact(operation, i);
      output.from_image |= input.from_image;
      output.needs_gradient |= input.needs_gradient;
      output.field.whole |= input.field.whole;
      for (size_t d = 0; d < 2; ++d) {
        output.field.size[d] = std::max(output.field.size[d], input.field.size[d]);
        output.field.stride[d] = std::max(output.field.stride[d], input.field.stride[d]);
      }
    }
    using enum OperationKind;
    if (operation.kind == flatten || operation.kind == unsqueeze || operation.kind == expand ||
        operation.kind == to_nchw || operation.kind == to_nhwc)
      output.storage = fact(operation, 0).storage;
    widen(operation, output.field);
  }

  void widen(const Graph::Operation& operation, ReceptiveField& field) const {
    const bool of_rows = operation.kind == OperationKind::linear && shape(operation, 0).size() == 2;
    field.whole |= operation.kind == OperationKind::mean || of_rows;
    const auto window = window_of(operation);
    if (!window) return;
    const auto& sizes = shape(operation, 0);
    bool all = true;
    for (size_t d = 0; d < 2; ++d) all &= sizes[d + 2] > 1 && window->size[d] >= sizes[d + 2];
    field.whole |= all;
    if (all) return;
    for (size_t d = 0; d < 2; ++d) {
      field.size[d] += (window->size[d] - 1) * field.stride[d];
      field.stride[d] *= window->stride[d];
    }
  }

  /// Widened fields keep their window sizes and strides, so that a gate does not change the
  /// strides.
  ReceptiveField receptive_field(size_t value) const {
    auto field = facts_[value].field;
    const auto& image = graph_.values[graph_.input].shape;
    if (field.whole) field.size = {image[2], image[3]};
    return field;
  }

  std::optional<Window> window_of(const Graph::Operation& operation) const {
    const auto sliding = [](const auto& options) {
      Window window{.size = {}, .stride = options.stride};
      for (size_t d = 0; d < 2; ++d)
        window.size[d] = (options.kernel[d] - 1) * options.dilation[d] + 1;
      return window;
    };
    if (const auto* convolution = std::get_if<Conv2dOptions>(&operation.options))
      return sliding(*convolution);
    if (const auto* pool = std::get_if<Pool2dOptions>(&operation.options)) return sliding(*pool);
    const auto* adaptive = std::get_if<AdaptivePool2dOptions>(&operation.options);
    if (adaptive == nullptr) return std::nullopt;
    Window window{};
    for (size_t d = 0; d < 2; ++d) {
      // Cell i covers the elements from floor(i * in / out) to ceil((i + 1) * in / out).
      const int64_t in = shape(operation, 0)[d + 2], out = adaptive->size[d];
      for (int64_t i = 0; i < out; ++i)
        window.size[d] = std::max(window.size[d], ((i + 1) * in + out - 1) / out - i * in / out);
      window.stride[d] = std::max<int64_t>(in / out, 1);
    }
    return window;
  }

  void count_parameters(const Graph::Operation& operation, Cost& cost) {
    for (const auto& input : operation.inputs) {
      if (!input) continue;
      const auto parameter = trained_.find(graph_.values[*input].name);
      if (parameter == trained_.end() || !counted_.insert(parameter->first).second) continue;
      const int64_t count = product(graph_.values[*input].shape);
      cost.parameters += count;
      if (parameter->second) cost.trainable_parameters += count;
    }
  }

  void count_flops(const Graph::Operation& operation, Cost& cost) const {
    if (operation.kind != OperationKind::conv2d && operation.kind != OperationKind::linear) return;
    const auto& weight = shape(operation, 1);  // [out, inputs of one output ...]
    cost.flops_forward = 2 * elements(operation.output) * product(weight, 1);
    cost.flops_step = cost.flops_forward * (1 + (fact(operation, 0).needs_gradient ? 1 : 0) +
                                            (fact(operation, 1).needs_gradient ? 1 : 0));
  }

  /// Bytes that this operation saves and no operation before has saved.
  int64_t kept_bytes(const Graph::Operation& operation) {
    using enum OperationKind;
    const auto input = [&](size_t i) { return keep(*operation.inputs[i]); };
    const auto output = [&] { return keep(operation.output); };
    const auto needs_gradient = [&](size_t i) { return fact(operation, i).needs_gradient; };
    switch (operation.kind) {
      case conv2d:
        return input(0) + input(1);
      case linear:
      case multiply:
        return (needs_gradient(1) ? input(0) : 0) + (needs_gradient(0) ? input(1) : 0);
      case batch_norm:
      case group_norm:
      case layer_norm:
        return input(0) + 2 * float_bytes * statistics(operation);
      case sigmoid:
        return output();
      case relu:
        return is_fused(operation) ? 0 : output();
      case gelu:
        return is_fused(operation) ? 0 : input(0);
      case avg_pool2d:
      case hardsigmoid:
      case hardswish:
      case silu:
        return input(0);
      case max_pool2d:
        return input(0) + elements(operation.output) * index_bytes;
      case adaptive_avg_pool2d:
        // The mean over one cell saves nothing.
        return product(graph_.values[operation.output].shape, 2) > 1 ? input(0) : 0;
      case standardize_weight: {
        // The centred weights, and each output's deviation.
        const auto& weight = shape(operation, 0);
        return (product(weight) + weight[0]) * float_bytes;
      }
      case add:
      case cat:
      case expand:
      case flatten:
      case mean:
      case scale:
      case to_nchw:
      case to_nhwc:
      case unsqueeze:
        return 0;
    }
    return 0;
  }

  /// Whether a batch norm computes this activation too and saves nothing in between (fused_norm.h).
  bool is_fused(const Graph::Operation& activation) const {
    const auto& norm = graph_.values[*activation.inputs[0]].producer;
    return norm && graph_.operations[*norm].kind == OperationKind::batch_norm &&
           graph_.operations[*norm].layer == activation.layer;
  }

  /// The number of means that a normalisation computes, which is also the number of deviations.
  int64_t statistics(const Graph::Operation& operation) const {
    const size_t input = *operation.inputs[0];
    if (const auto* groups = std::get_if<GroupNormOptions>(&operation.options))
      return batch_size_ * groups->groups;
    if (const auto* layer = std::get_if<LayerNormOptions>(&operation.options))
      return elements(input) / layer->features;
    // A batch norm that is frozen whole does not compute batch statistics.
    bool trained = operation.inputs.size() < 2;
    for (size_t i = 1; i < std::min<size_t>(operation.inputs.size(), 3); ++i)
      trained |= has(operation, i) && fact(operation, i).needs_gradient;
    return trained ? graph_.values[input].shape[1] : 0;
  }

  int64_t keep(size_t value) {
    const size_t storage = facts_[value].storage;
    const bool made = graph_.values[storage].producer || storage == graph_.input;
    if (!made || !kept_.insert(storage).second) return 0;
    return elements(storage) * float_bytes;
  }

  const Graph& graph_;
  int64_t batch_size_;
  std::vector<Fact> facts_;
  std::unordered_map<std::string, bool> trained_;  ///< for each parameter: whether it is trained
  std::set<std::string> counted_;
  std::set<size_t> kept_;
};

}  // namespace

Cost& Cost::operator+=(const Cost& other) {
  parameters += other.parameters;
  trainable_parameters += other.trainable_parameters;
  flops_forward += other.flops_forward;
  flops_step += other.flops_step;
  activation_bytes += other.activation_bytes;
  return *this;
}

NetworkCost cost_of(const Graph& graph, const Model& model, int64_t batch_size) {
  NetworkCost total;
  Accountant accountant(graph, model, batch_size);
  for (const auto& operation : graph.operations) {
    total.operations.push_back(accountant.next(operation));
    total += total.operations.back();
    if (operation.kind == OperationKind::conv2d)
      total.receptive_field = total.operations.back().receptive_field;
  }
  total.parameters = total.trainable_parameters = 0;
  for (const auto& parameter : model.parameters()) {
    total.parameters += parameter.numel();
    if (parameter.requires_grad()) total.trainable_parameters += parameter.numel();
  }
  return total;
}

}  // namespace composer

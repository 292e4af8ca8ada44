// One picture of a network: the operations of a forward pass, in order, and the tensors between
// them. It is made by recording a pass; whatever needs a network's structure reads it here.
#pragma once

#include <ATen/ATen.h>

#include <optional>
#include <string>
#include <vector>

#include "nn/network/operations.h"

namespace composer {

class Model;

struct Graph {
  /// A tensor of a pass.
  struct Value {
    std::vector<int64_t> shape;
    at::ScalarType type = at::kFloat;
    /// Index of the operation that made it; nothing for the network's input and for constants.
    std::optional<size_t> producer;
    /// What a parameter, a buffer or a helper tensor (a blur filter) holds; else undefined.
    at::Tensor constant;
    /// Of a parameter or buffer, "layer1.0.conv1.weight"; else empty.
    std::string name;
  };

  /// One step of a pass.
  struct Operation {
    OperationKind kind;
    /// Path of the slot that computes it, "layer1.0.conv1"; empty in the model itself.
    std::string layer;
    OperationOptions options;
    /// Indices into values, in the order of the function of that name in operations.h; an optional
    /// tensor that is absent is left out at the end of the list, and nothing in its middle.
    std::vector<std::optional<size_t>> inputs;
    size_t output;
  };

  std::vector<Value> values;
  /// In the order in which they ran: each comes after those that made its inputs.
  std::vector<Operation> operations;
  size_t input = 0, output = 0;  ///< indices into values

  /// Indices of the operations that read a value, in order.
  std::vector<size_t> readers(size_t value) const;
  /// The one operation that reads a value; nothing where there are several or none, and for the
  /// graph's output.
  std::optional<size_t> only_reader(size_t value) const;
  /// What an input of the operation holds; undefined where it is absent or no constant.
  const at::Tensor& constant(const Operation& operation, size_t input) const;
};

/// The pass of one input [N, C, H, W] through the model as evaluation runs it, in the type and on
/// the device of its weights; the model is left as it was. UserError that names the layer and the
/// operation where a tensor comes from an operation that is not in operations.h.
Graph record(Model& model, const at::Tensor& input);

/// What the operation gives for its inputs, in the order of Operation::inputs; undefined for those
/// that are absent.
at::Tensor compute(const Graph::Operation& operation, const std::vector<at::Tensor>& inputs);

}  // namespace composer

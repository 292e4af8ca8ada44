// The graph of a network: the operations of one forward pass, in order, and the tensors between
// them. It is made by recording a pass; all code that needs a network's structure reads it here.
#pragma once

#include <ATen/ATen.h>

#include <optional>
#include <string>
#include <vector>

#include "nn/network/operations.h"

namespace composer {

class Model;

struct Graph {
  /// A tensor of the pass.
  struct Value {
    std::vector<int64_t> shape;
    at::ScalarType type = at::kFloat;
    /// Index of the operation that made it; nothing for the network's input and for constants.
    std::optional<size_t> producer;
    /// The value of a parameter, a buffer or a helper tensor (a blur filter); else undefined.
    at::Tensor constant;
    /// "layer1.0.conv1.weight" for a parameter or buffer; else empty.
    std::string name;
  };

  /// One operation of the pass.
  struct Operation {
    OperationKind kind;
    /// Path of the slot that computes it, "layer1.0.conv1"; empty in the model itself.
    std::string layer;
    OperationOptions options;
    /// Indices into `values`, in the order of the function's tensors in operations.h. An absent
    /// optional tensor is left out at the end of the list, and is nothing in its middle.
    std::vector<std::optional<size_t>> inputs;
    size_t output;
  };

  std::vector<Value> values;
  /// The operations in the order they ran: each comes after those that made its inputs.
  std::vector<Operation> operations;
  size_t input = 0, output = 0;  ///< indices into values

  /// Indices of the operations that read a value, in order.
  std::vector<size_t> readers(size_t value) const;
  /// The only operation that reads a value; nothing where there are several or none, and for the
  /// graph's output.
  std::optional<size_t> only_reader(size_t value) const;
  /// The constant that an input of the operation holds; undefined where the input is absent or no
  /// constant.
  const at::Tensor& constant(const Operation& operation, size_t input) const;
};

/// Records the pass of one input [N, C, H, W] through the model in evaluation mode, in the type and
/// on the device of the weights; the model does not change. UserError naming the layer and the
/// operation where a tensor comes from an operation that is not in operations.h.
Graph record(Model& model, const at::Tensor& input);

/// The operation's output for these inputs, in the order of Operation::inputs; absent ones are
/// undefined.
inline at::Tensor compute(const Graph::Operation& operation,
                          const std::vector<at::Tensor>& inputs) {
  return compute(operation.kind, operation.options, inputs);
}

}  // namespace composer

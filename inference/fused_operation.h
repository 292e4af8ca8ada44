// Which of a graph's operations are computed in one pass over their output.
#pragma once

#include <optional>
#include <vector>

#include "inference/graph/trained_network.h"

namespace composer {

/// An operation, and where it is a convolution or a linear layer what follows it in the same pass.
struct FusedOperation {
  size_t operation;                         ///< index into Graph::operations
  std::optional<size_t> addend;             ///< the value that is added to a convolution's output
  std::optional<OperationKind> activation;  ///< relu, or where nothing is added gelu or sigmoid
  size_t output;                            ///< the value that all of it makes
};

/// Whether the operation is a convolution, or a linear layer of rows [N, in], with constant
/// weights.
bool has_constant_weights(const Graph& graph, const Graph::Operation& operation);

/// All operations of the graph, in an order in which they can run. What follows is taken in where
/// nothing else reads what is between, and that has no codes. A layer with codes takes in relu
/// alone, and a sum only of codes whose outcome has codes.
std::vector<FusedOperation> fused_operations(const Graph& graph, const Quantization& quantization);

}  // namespace composer

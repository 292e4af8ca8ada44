// Operation fusion: which of a graph's operations are computed in one pass over their output.
#pragma once

#include <optional>
#include <vector>

#include "inference/graph/trained_network.h"

namespace composer {

/// An operation; for a convolution or a linear layer, with the operations fused into it.
struct FusedOperation {
  size_t operation;                         ///< index into Graph::operations
  std::optional<size_t> addend;             ///< value that is added to a convolution's output
  std::optional<OperationKind> activation;  ///< relu; without an addend also gelu or sigmoid
  size_t output;                            ///< value that the fused operation computes
};

/// Whether the operation is a convolution, or a linear layer of rows [N, in], with constant
/// weights.
bool has_constant_weights(const Graph& graph, const Graph::Operation& operation);

/// All operations of the graph, in an order in which they can run. An operation is fused into the
/// layer before it where nothing else reads the value between them and that value has no codes. A
/// layer with codes fuses relu only, and a sum only where the addend and the result have codes.
std::vector<FusedOperation> fused_operations(const Graph& graph, const Quantization& quantization);

}  // namespace composer

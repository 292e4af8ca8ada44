// Where a network can compute with codes.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "nn/network/graph.h"

namespace composer {

/// Indices of the operations that can: convolutions and linear layers with constant weights.
std::vector<size_t> codable_operations(const Graph& graph);

/// What a convolution or a linear layer is called: its layer's path, and after that which of the
/// layer's several it is, where it is not that of the layer's "weight": "conv2.squeeze" by the
/// parameter's name, "conv2.filter" by a constant without one.
std::string layer_name(const Graph& graph, const Graph::Operation& operation);

/// What the operations that can are called.
std::vector<std::string> codable_layers(const Graph& graph);

/// The values that have codes when the operations `coded` compute with them, each with the one
/// whose numbers choose its codes. Codes have
///   - the inputs of these operations, and what a maximum or another shape made them from, which
///     has the same codes;
///   - where a sum, and a ReLU after it, is computed by the convolution before it, in the place of
///     the other summand: that summand and the result.
std::map<size_t, size_t> coded_values(const Graph& graph, const std::set<size_t>& coded);

}  // namespace composer

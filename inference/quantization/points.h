// Quantization points: the operations and values of a graph that can have codes.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "nn/network/graph.h"

namespace composer {

/// Indices of the operations that can compute with codes: convolutions and linear layers with
/// constant weights.
std::vector<size_t> codable_operations(const Graph& graph);

/// The name of a convolution or a linear layer: the path of its layer. If its weight is not the
/// layer's "weight", the name of the parameter follows, as in "conv2.squeeze", or "filter" for a
/// constant without a name, as in "conv2.filter".
std::string layer_name(const Graph& graph, const Graph::Operation& operation);

/// The names of the codable_operations(), each once.
std::vector<std::string> codable_layers(const Graph& graph);

/// The values that have codes when the operations `coded` compute with codes, each with the value
/// whose range determines its codes:
///   - the inputs of these operations; if max pooling or flattening computed an input, also the
///     value that it reads, with the same codes;
///   - where a convolution computes the sum after it, with its ReLU: the addend and the result.
std::map<size_t, size_t> coded_values(const Graph& graph, const std::set<size_t>& coded);

}  // namespace composer

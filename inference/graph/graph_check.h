// Whether a graph that comes from a file can be computed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nn/network/graph.h"

namespace composer {

/// Throws std::invalid_argument that names the first operation or value at fault: one that reads
/// what is not there before it, has other inputs than its kind, or does not give what its output
/// says.
void check_graph(const Graph& graph);

/// The shape of the operation's output. Throws std::invalid_argument that says what of its options
/// and of the shapes and types of its inputs does not fit; those that it needs are there.
std::vector<int64_t> output_shape(const Graph& graph, const Graph::Operation& operation);

/// "[1, 3, 32, 32]".
std::string shape_text(const std::vector<int64_t>& shape);

}  // namespace composer

// Checks of a graph that was read from a file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nn/network/graph.h"

namespace composer {

/// Throws std::invalid_argument that names the first invalid operation or value: an operation that
/// reads a value before it exists, has the wrong inputs for its kind, or whose result does not have
/// the shape and type of its output.
void check_graph(const Graph& graph);

/// The shape of the operation's output. Throws std::invalid_argument that names the option, shape
/// or type that does not fit. All required inputs must be present.
std::vector<int64_t> output_shape(const Graph& graph, const Graph::Operation& operation);

/// "[1, 3, 32, 32]".
std::string shape_text(const std::vector<int64_t>& shape);

}  // namespace composer

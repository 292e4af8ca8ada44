// Whether a graph that comes from a file can be computed.
#pragma once

#include "nn/network/graph.h"

namespace composer {

/// Throws std::invalid_argument that names the first operation or value at fault: one that reads
/// what is not there before it, has other inputs than its kind, or does not give what its output
/// says.
void check_graph(const Graph& graph);

}  // namespace composer

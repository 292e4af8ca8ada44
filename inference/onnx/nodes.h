// Translation of a network's operations to ONNX nodes.
#pragma once

#include <string>
#include <vector>

#include "inference/onnx/onnx_graph.h"
#include "nn/network/graph.h"

namespace composer {

/// Adds the nodes that compute the operation of the graph. inputs: names in the order of
/// Operation::inputs, empty where absent. UserError that names the layer where ONNX cannot express
/// it.
void add_nodes(OnnxGraph& onnx, const Graph& graph, const Graph::Operation& operation,
               std::vector<std::string> inputs, const std::string& output);

}  // namespace composer

// A graph as JSON; its tensors are stored elsewhere by name.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "nn/network/graph.h"

namespace composer {

/// The name of a constant of the graph: its own, or "constant.<index>".
std::string constant_name(const Graph& graph, size_t value);

nlohmann::ordered_json to_json(const Graph& graph);

/// tensor_of: returns the tensor of that name; undefined where there is none. Throws
/// std::invalid_argument that names the fault, or nlohmann's exceptions.
Graph graph_from(const nlohmann::ordered_json& json,
                 const std::function<at::Tensor(const std::string& name)>& tensor_of);

}  // namespace composer

// A quantization as JSON; the scales of weights stand elsewhere under names.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "composer/checkpoint/safetensors.h"
#include "inference/graph/trained_network.h"

namespace composer {

/// Of a network's weights.
std::string scales_name(const Graph& graph, size_t weight);

nlohmann::ordered_json to_json(const Quantization& quantization, const Graph& graph);

/// json: undefined where there are no codes. Throws std::invalid_argument that names the entry, and
/// what is wrong with it or lacks beside it in the graph, or nlohmann's exceptions.
Quantization quantization_from(const nlohmann::ordered_json& json, const Graph& graph,
                               const TensorMap& tensors);

/// Throws std::invalid_argument where weights are codes without scales, or codes cannot be computed
/// with.
void check_codes(const Graph& graph, const Quantization& quantization);

}  // namespace composer

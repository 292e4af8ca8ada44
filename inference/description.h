// The description of a trained network in an export, without its graph and tensors.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "inference/graph/trained_network.h"

namespace composer {

/// {"format", "format_version", "weights", "epoch", "batch", "preparation": {"channels",
/// "resize_size", "resize_filter", "height", "width", "mean", "std"}, "class_names", "loss",
/// "metrics", "recipe", "layers"}.
nlohmann::ordered_json description_of(const TrainedNetwork& network);

/// The text in files; bytes of names that are not UTF-8 are replaced.
std::string description_text(const nlohmann::ordered_json& description);

/// The network that the description describes, without a graph. Throws std::invalid_argument or
/// nlohmann's exceptions.
TrainedNetwork described(const nlohmann::ordered_json& json);

inline constexpr int network_version = 1;

}  // namespace composer

// A trained network on the disk: a folder of network.json (what it computes, how images are
// prepared, class names, recipe, metrics), model.safetensors (weights under their names) and, where
// it has others, constants.safetensors.
#pragma once

#include <filesystem>

#include "composer/checkpoint/safetensors.h"
#include "inference/graph/trained_network.h"
#include "nn/network/library_names.h"

namespace composer {

/// UserError where a network cannot be written there: it is named like a file, is one, holds other
/// things than a network, or may not be written to, itself or the folder that it would be made in.
void check_network_folder(const std::filesystem::path& folder);

/// Writes the folder, which is made. An earlier network in it is replaced once all is written and
/// flushed; whatever the instant of a kill, a reader finds the old one, the new one, or that it is
/// none. `state`: what model.safetensors holds, all tensors of the graph that have a
/// name among them; empty: those. names: what they are called there; a reader finds their own names
/// again. Throws UserError for a folder that holds other things, RunError when it cannot be
/// written.
void write_network(const std::filesystem::path& folder, const TrainedNetwork& network,
                   TensorMap state = {}, const LibraryNames& names = {});

/// Throws UserError naming what is missing or damaged.
TrainedNetwork read_network(const std::filesystem::path& folder);

}  // namespace composer

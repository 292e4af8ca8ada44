// A trained network on disk: a folder of network.json (the graph, how images are prepared, class
// names, recipe, metrics), model.safetensors (weights by name) and, where there are other
// constants, constants.safetensors.
#pragma once

#include <filesystem>

#include "composer/checkpoint/safetensors.h"
#include "inference/graph/trained_network.h"
#include "nn/network/library_names.h"

namespace composer {

/// UserError if a network cannot be written to `folder`: the name is that of a file, the path is
/// a file, the folder holds something other than a network, or it or its parent is not writable.
void check_network_folder(const std::filesystem::path& folder);

/// Creates and writes the folder. An earlier network in it is replaced after all files are written
/// and flushed: after a kill at any instant a reader finds the old network, the new one, or an
/// error. state: the tensors of model.safetensors, which include all named tensors of the graph;
/// empty: only the named tensors. names: the names of the tensors in the file; a reader restores
/// their own names. UserError as check_network_folder(), RunError when the folder cannot be
/// written.
void write_network(const std::filesystem::path& folder, const TrainedNetwork& network,
                   TensorMap state = {}, const LibraryNames& names = {});

/// Throws UserError that names the missing or damaged file or entry.
TrainedNetwork read_network(const std::filesystem::path& folder);

}  // namespace composer

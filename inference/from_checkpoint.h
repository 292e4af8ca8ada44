// Reads the trained network of a checkpoint, or of a file of weights that contains its recipe.
#pragma once

#include <string>

#include "composer/checkpoint/safetensors.h"
#include "composer/recipe/recipe.h"
#include "inference/graph/trained_network.h"
#include "nn/network/library_names.h"

namespace composer {

struct TakenNetwork {
  TrainedNetwork network;  ///< not folded
  TensorMap state;         ///< all parameters and buffers under PyTorch's names
};

/// Takes the network from a checkpoint folder with its recipe's surgery, as evaluation runs it,
/// from a folder that `composer export` wrote, or a .safetensors file with its recipe. weights:
/// "model", or the name of an algorithm that averages weights; empty: the weights that evaluation
/// uses. Metrics are included for the weights that were evaluated. UserError names what is missing
/// at `path`, or the operation that nn/network/operations.h does not have.
TakenNetwork take_network(const std::string& path, const std::string& weights = {});

/// Changes the recipe to load only weights from its load_path and to use no run folder.
void use_weights_alone(Recipe& recipe, bool strict = true);

/// The names of the network's tensors in the library, "torchvision" or "timm". Warns where the
/// library's network computes something else or surgery changed this one: the library would refuse
/// the weights, or load them and compute something else. UserError for another library, and for a
/// network that the library does not have.
LibraryNames names_in(const TakenNetwork& taken, const std::string& library);

}  // namespace composer

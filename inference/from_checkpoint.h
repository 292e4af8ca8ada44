// From a checkpoint, or a file of weights that tells its recipe, to the trained network in it.
#pragma once

#include <string>

#include "composer/checkpoint/safetensors.h"
#include "composer/recipe/recipe.h"
#include "inference/graph/trained_network.h"
#include "nn/network/library_names.h"

namespace composer {

struct TakenNetwork {
  TrainedNetwork network;  ///< as it was trained: not folded
  TensorMap state;         ///< all parameters and buffers under PyTorch's names
};

/// The network of a checkpoint folder, with its recipe's surgery, as evaluation runs it; or of a
/// folder that `composer export` wrote, or of a .safetensors file that tells its recipe. weights:
/// "model", or the name of the algorithm whose average is wanted; empty: those that evaluation
/// uses, an average that takes the weights' place in it, else the model's. Metrics are there for
/// the weights that were evaluated. UserError naming what is missing at `path`, or what of the
/// network is outside of nn/network/operations.h.
TakenNetwork take_network(const std::string& path, const std::string& weights = {});

/// Has a recipe take nothing but weights from its load_path, whatever training did with it, and
/// look at no run folder.
void use_weights_alone(Recipe& recipe, bool strict = true);

/// The names that the library, "torchvision" or "timm", has for the network's tensors. Warns where
/// the library's network computes something else, and where surgery changed what this one computes:
/// the library would refuse the weights, or load them and compute something else. UserError for
/// another library, and for a network that it does not have.
LibraryNames names_in(const TakenNetwork& taken, const std::string& library);

}  // namespace composer

// From a checkpoint, or a file of weights that tells its recipe, to the trained network in it.
#pragma once

#include <string>
#include <vector>

#include "composer/storage/safetensors.h"
#include "inference/trained_network.h"

namespace composer {

struct TakenNetwork {
  TrainedNetwork network;  ///< as it was trained: not folded
  TensorMap state;         ///< all parameters and buffers under PyTorch's names
};

/// The network of a checkpoint folder, with its recipe's surgery, as evaluation runs it. weights:
/// "model", or the name of the algorithm whose average is wanted; empty: the average of the one
/// that keeps one, else the model's. UserError naming what the checkpoint lacks, or what of the
/// network is outside of composer/network/operations.h.
TakenNetwork take_network(const std::string& checkpoint, std::string weights = {});

/// The registered algorithms that average the weights.
std::vector<std::string> averaging_algorithms();

}  // namespace composer

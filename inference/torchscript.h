// Export of a trained network as a TorchScript file, which Python's torch and LibTorch load.
#pragma once

#include <string>

#include "inference/graph/trained_network.h"
#include "inference/preprocessing.h"

namespace composer {

/// Writes the folded network as a module: images -> logits [N, classes]. With
/// Preprocessing::resize each byte of the images is at most one away from the evaluation's, two
/// where it enlarges. The extra file "network.json" is the description (description.h).
/// preprocessing: not portable. UserError for a quantized network, RunError when the file cannot be
/// written.
void write_torchscript(const std::string& path, const TrainedNetwork& network,
                       Preprocessing preprocessing = Preprocessing::none);

}  // namespace composer

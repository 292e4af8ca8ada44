// Export of a trained network as a TorchScript file, which Python's torch and LibTorch load.
#pragma once

#include <string>

#include "inference/graph/trained_network.h"

namespace composer {

/// Writes the folded network as a module: float32 [N, C, H, W], normalised as the preparation says
/// -> logits [N, classes]. The extra file "network.json" is the description (description.h).
/// UserError for a quantized network, RunError when the file cannot be written.
void write_torchscript(const std::string& path, const TrainedNetwork& network);

}  // namespace composer

// Folding: an equivalent graph with fewer operations.
#pragma once

#include "inference/graph/trained_network.h"

namespace composer {

/// Folds constants, in float32; folds norms by running statistics and constant factors into the
/// convolution or linear layer before them, where nothing else reads its output; removes values
/// that nothing reads. Results differ by rounding. New weights and biases are named
/// "<layer>.weight" and "<layer>.bias" after the layer that was changed.
Graph folded(Graph graph);

/// The network's folded graph. A quantized network is folded already.
Graph folded(const TrainedNetwork& network);

}  // namespace composer

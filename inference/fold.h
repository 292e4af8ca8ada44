// A graph with fewer operations that computes the same.
#pragma once

#include <string>

#include "inference/graph/trained_network.h"

namespace composer {

/// Adds a value that holds the tensor; returns its index.
size_t add_constant(Graph& graph, const at::Tensor& tensor, std::string name);

/// What does not depend on the input is computed, in float32; norms by running statistics and
/// constant factors go into the convolution or linear layer before them, where nothing else reads
/// its output; what nobody reads is left out. Results differ by rounding. New weights and biases
/// are named "<layer>.weight" and "<layer>.bias" after the layer they went into.
Graph folded(Graph graph);

/// The network's; one whose weights have codes was folded before.
Graph folded(const TrainedNetwork& network);

}  // namespace composer

// Biases that make good what codes change on average (Nagel et al. 2019, arXiv:1906.04721).
#pragma once

#include "inference/graph/trained_network.h"

namespace composer {

/// The folded graph, its weights still numbers, where the biases of the operations whose weights
/// get codes have grown by what the means of their outputs' channels lose to the codes, of their
/// own and of the layers before, over the images float32 [N, C, H, W].
Graph bias_corrected(Graph folded, const Quantization& quantization, const at::Tensor& images);

}  // namespace composer

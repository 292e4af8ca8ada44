// Post-training quantization: codes for a network's weights, and for its tensors by what they hold
// when it sees images (Krishnamoorthi 2018, arXiv:1806.08342).
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "inference/graph/trained_network.h"
#include "inference/quantization/codes.h"

namespace composer {

/// Codes for every value of a folded graph that may have some. images: batches, float32 [N, C, H,
/// W], normalised. Throws RunError where a layer's values are not numbers.
std::map<size_t, Affine> observed_codes(const Graph& folded, const std::vector<at::Tensor>& images,
                                        int64_t activation_bits = activation_bits_here());

/// With codes for the weights of the operations `coded` and for the values that go with them.
Quantization quantization_of(const Graph& folded, const std::map<size_t, Affine>& observed,
                             const std::set<size_t>& coded,
                             int64_t activation_bits = activation_bits_here());

/// The operations that compute with codes when the layers `kept` stay in float32: an operation that
/// shares its weight with a kept one stays with it.
std::set<size_t> coded_without(const Graph& folded, const std::set<std::string>& kept);

/// All three in one: every layer that can, but those kept.
Quantization calibrated(const Graph& folded, const std::vector<at::Tensor>& images,
                        const std::set<std::string>& kept = {},
                        int64_t activation_bits = activation_bits_here());

/// The folded network with int8 codes in the place of the weights that have scales.
TrainedNetwork quantized(TrainedNetwork folded, Quantization quantization);

}  // namespace composer

// A trained network as an ONNX file (IR version 8, operator set 17), for ONNX Runtime, OpenVINO and
// others.
#pragma once

#include <map>
#include <string>

#include "inference/graph/trained_network.h"

namespace composer {

struct OnnxOptions {
  /// The input is uint8 [N, H, W, C], resized and cropped as the preparation says, which the
  /// network normalises by itself; else float32 [N, C, H, W], normalised.
  bool preprocessing = false;
};

/// Writes the network, folded, from "images" to "logits" [N, classes]; N is any. A quantized one
/// stands as it is, in QDQ form: int8 weights, uint8 activations, int32 biases. Where
/// activation_bits is 7, codes beyond 127 occur for numbers beyond the calibrated range. The
/// metadata "network.json" is the description (description.h). Throws UserError naming a layer that
/// has no form in ONNX, or for a network of more than 2 GB; RunError when the file cannot be
/// written.
void write_onnx(const std::string& path, const TrainedNetwork& network,
                const OnnxOptions& options = {});

/// The values of the graph that are to have codes in the file: quantization.activations; what a max
/// pool alone reads, where its output has codes, which are those of its input then; and what an
/// operation with coded weights adds to a sum with codes. That has none in quantization, as the
/// operation does the sum; its codes here cover all that makes a difference to the sum's.
std::map<size_t, Affine> codes_by_value(const Graph& graph, const Quantization& quantization);

}  // namespace composer

// Export of a trained network as an ONNX file (IR version 8, operator set 17 or 18), for ONNX
// Runtime, OpenVINO and others.
#pragma once

#include <map>
#include <string>

#include "inference/graph/trained_network.h"
#include "inference/preprocessing.h"

namespace composer {

struct OnnxOptions {
  Preprocessing preprocessing = Preprocessing::none;
  bool probabilities = false;  ///< a second output, "probabilities": the logits' softmax
};

/// Operator set 18 with Preprocessing::resize, which needs it, else 17.
///
/// Writes the folded network from "images" to "logits" [N, classes], for any N. A quantized network
/// is written in QDQ form: int8 weights, uint8 activations, int32 biases. With activation_bits 7,
/// numbers beyond the calibrated range get codes above 127. The metadata "network.json" is the
/// description (description.h). UserError that names a layer that ONNX cannot express, for a
/// preparation that cannot be put in the file, or for a network of more than 2 GB; RunError when
/// the file cannot be written.
void write_onnx(const std::string& path, const TrainedNetwork& network,
                const OnnxOptions& options = {});

/// The values that get codes in the file, with scale and zero point: quantization.activations; the
/// input of a max pool whose output has codes, if only the pool reads it; and the output of an
/// operation with coded weights that is added to a sum with codes. The quantization has no codes
/// for that output, because the operation computes the sum; the codes here cover every number that
/// can change the code of the sum.
std::map<size_t, Affine> codes_by_value(const Graph& graph, const Quantization& quantization);

}  // namespace composer

// Tensors that stand for their numbers by codes of 8 bits, as ONNX has them: QuantizeLinear and
// DequantizeLinear around operators of float32, which runtimes take for operators of codes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "inference/graph/trained_network.h"
#include "inference/onnx/onnx_graph.h"

namespace composer {

/// The values of the graph that are to have codes in the file: quantization.activations; what a max
/// pool alone reads, where its output has codes, which are those of its input then; and what an
/// operation with coded weights adds to a sum with codes. That has none in quantization, as the
/// operation does the sum; its codes here cover all that makes a difference to the sum's.
std::map<size_t, Affine> codes_by_value(const Graph& graph, const Quantization& quantization);

/// Adds nodes that round the tensor `from` to codes and make `to` of these.
void add_rounding(OnnxGraph& onnx, const Affine& codes, const std::string& from,
                  const std::string& to);

/// Names of the operation's weight, and of its bias where it has one, made of codes: those of a
/// bias are int32, of scale input_scale * weight scale. Where that is too fine for the bias, the
/// channel's weights get coarser.
std::vector<std::string> add_coded_weights(OnnxGraph& onnx, const Graph& graph,
                                           const Graph::Operation& operation,
                                           const at::Tensor& weight_scales, double input_scale);

}  // namespace composer

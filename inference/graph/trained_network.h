// A trained network without its training: its graph, and everything needed to use it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "composer/loop/loader.h"
#include "nn/network/graph.h"

namespace composer {

/// Adds a value that holds the tensor; returns its index.
inline size_t add_constant(Graph& graph, const at::Tensor& tensor, std::string name) {
  graph.values.push_back({.shape = tensor.sizes().vec(),
                          .type = tensor.scalar_type(),
                          .producer = {},
                          .constant = tensor,
                          .name = std::move(name)});
  return graph.values.size() - 1;
}

/// Whether the operation is a convolution or a linear layer, whose inputs[1] is its weight.
inline bool has_weight(const Graph::Operation& operation) {
  return operation.kind == OperationKind::conv2d || operation.kind == OperationKind::linear;
}

/// number = scale * (code - zero_point).
struct Affine {
  double scale = 1;
  int64_t zero_point = 0;
  bool operator==(const Affine&) const = default;
};

/// The tensors of a graph that are held as 8-bit codes. An operation whose weight has codes
/// computes with codes: its input has codes too, and so has the addend of a sum that it computes.
struct Quantization {
  int64_t activation_bits = 8;  ///< 7: codes 0..127, for processors whose sums would overflow
  std::map<size_t, Affine> activations;  ///< by index into Graph::values; uint8 codes
  std::map<size_t, at::Tensor>
      weight_scales;  ///< float32 [out], of int8 weights [out, ...] by index

  bool empty() const { return weight_scales.empty(); }
  /// Whether the operation computes with codes: whether its weight has codes.
  bool covers(const Graph::Operation& operation) const {
    return has_weight(operation) && weight_scales.contains(*operation.inputs[1]);
  }
};

struct TrainedNetwork {
  /// The shapes are for one image; N is free when the graph is computed.
  Graph graph;
  Preparation preparation;                 ///< from an image to the graph's input
  std::string resize_filter = "triangle";  ///< LoaderOptions::resize_filter of the preparation
  std::vector<std::string> class_names;    ///< one per output, in order; may be empty
  std::string recipe;                      ///< resolved recipe, YAML; empty without a recipe
  std::string loss = "auto";               ///< name of the loss, as make_objective() takes it
  std::vector<std::string> outline;        ///< nn/network/outline.h
  std::string weights = "model";           ///< "model", or the algorithm that averaged the weights
  int64_t epoch = 0, batch = 0;            ///< after which the weights were saved
  std::map<std::string, double>
      metrics{};  ///< metrics of the evaluation at that batch; may be empty
  Quantization quantization{};

  /// The number of classes: the graph's output is [N, classes].
  int64_t classes() const { return graph.values.at(graph.output).shape.back(); }
};

}  // namespace composer

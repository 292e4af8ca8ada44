// A trained network apart from its training: what it computes, and all that its use needs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "composer/loop/loader.h"
#include "nn/network/graph.h"

namespace composer {

/// number = scale * (code - zero_point).
struct Affine {
  double scale = 1;
  int64_t zero_point = 0;
  bool operator==(const Affine&) const = default;
};

/// Which of a graph's tensors stand for their numbers by codes of 8 bits. An operation whose weight
/// has codes computes with them: its input and, where a norm's or a sum's place was taken by it,
/// its other inputs have codes too.
struct Quantization {
  int64_t activation_bits = 8;  ///< 7: codes 0..127, for processors whose products would overflow
  std::map<size_t, Affine> activations;        ///< by index into Graph::values; uint8 codes
  std::map<size_t, at::Tensor> weight_scales;  ///< of int8 weights [out, ...]: float32 [out]

  bool empty() const { return weight_scales.empty(); }
  /// Whether the operation computes with codes: its weight has some.
  bool covers(const Graph::Operation& operation) const {
    return (operation.kind == OperationKind::conv2d || operation.kind == OperationKind::linear) &&
           weight_scales.contains(*operation.inputs[1]);
  }
};

struct TrainedNetwork {
  /// Shapes are of one image; any number of them may be computed at once.
  Graph graph;
  Preparation preparation;                  ///< from an image to the graph's input
  std::string resize_filter = "triangle";   ///< of the preparation: LoaderOptions::resize_filter
  std::vector<std::string> class_names;     ///< one for each output, in order; may be empty
  std::string recipe;                       ///< resolved, YAML
  std::string loss = "auto";                ///< make_objective's word for what the outputs mean
  std::vector<std::string> outline;         ///< nn/network/outline.h
  std::string weights = "model";            ///< or the algorithm that averaged them
  int64_t epoch = 0, batch = 0;             ///< after which they were taken
  std::map<std::string, double> metrics{};  ///< of the evaluation at that batch; may be empty
  Quantization quantization{};

  /// Number of classes: the graph's output is [N, classes].
  int64_t classes() const { return graph.values.at(graph.output).shape.back(); }
};

}  // namespace composer

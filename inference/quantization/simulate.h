// Simulation of a quantized network in float32, the reference of the kernels that compute with
// codes.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "inference/graph/trained_network.h"
#include "nn/network/graph.h"

namespace composer {

/// Called with the input and with each operation's output when it is computed; may replace it.
using Made = std::function<void(size_t value, at::Tensor& tensor)>;

/// A pass through a graph, step by step. A value is freed after its last read.
class Pass {
 public:
  /// images: [N, C, H, W]. The graph must outlive the pass.
  Pass(const Graph& graph, const at::Tensor& images, Made made);

  /// Computes the next operation of the graph; false if there is none left.
  bool step();

  /// The graph's output, after the last step.
  at::Tensor output() const;

 private:
  at::Tensor read(size_t value);

  const Graph& graph_;
  Made made_;
  std::vector<size_t> left_;  ///< by value: number of reads that are left
  std::vector<at::Tensor> values_;
  size_t next_ = 0;
};

/// The graph's output for images [N, C, H, W].
at::Tensor pass(const Graph& graph, const at::Tensor& images, const Made& made);

/// The quantized network in float32 arithmetic.
class Simulation {
 public:
  /// graph: its weights with scales are int8 codes, or float32 numbers that are rounded to codes.
  Simulation(Graph graph, Quantization quantization);
  explicit Simulation(const TrainedNetwork& network)
      : Simulation(network.graph, network.quantization) {}

  /// images: float32 [N, C, H, W], normalised -> logits [N, classes].
  at::Tensor operator()(const at::Tensor& images) const { return run(images, {}); }

  /// The same; `made` is called with each value before it is rounded to its codes.
  at::Tensor run(const at::Tensor& images, const Made& made) const;

  /// The same, step by step. The simulation must outlive the pass.
  Pass begin(const at::Tensor& images, Made made) const;

 private:
  Graph graph_;
  Quantization quantization_;
};

/// Called with a value of the float32 graph and of the simulation, before it is rounded to codes.
using MadeTwice =
    std::function<void(size_t value, const at::Tensor& exact, const at::Tensor& simulated)>;

/// Passes the images [N, C, H, W] through both graphs, operation by operation, so that only the
/// values of two passes are held. folded: the graph that the simulation was made from.
void side_by_side(const Graph& folded, const Simulation& simulation, const at::Tensor& images,
                  const MadeTwice& made);

/// The signal-to-noise ratio of each value in dB: 10 log10 of the sum of squares in the float32
/// graph over the sum of squared errors of the simulation.
std::map<size_t, double> signal_to_noise(const Graph& folded, const Simulation& simulation,
                                         const std::vector<at::Tensor>& images,
                                         const std::set<size_t>& values);

}  // namespace composer

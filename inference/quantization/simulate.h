// What a quantized network computes, in float32: the reference of kernels that compute with codes.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "inference/graph/trained_network.h"
#include "nn/network/graph.h"

namespace composer {

/// Hears of the input and of each operation's output as it is made, and may put another in its
/// place.
using Made = std::function<void(size_t value, at::Tensor& tensor)>;

/// A pass that is taken step by step. A value is let go as soon as nothing reads it any more.
class Pass {
 public:
  /// images: [N, C, H, W]. graph: must outlive it.
  Pass(const Graph& graph, const at::Tensor& images, Made made);

  /// Computes the next operation of the graph. False, and nothing is computed, after the last one.
  bool step();

  /// The graph's, once all steps are done.
  at::Tensor output() const;

 private:
  at::Tensor read(size_t value);

  const Graph& graph_;
  Made made_;
  std::vector<size_t> left_;  ///< by value: how often it is yet read
  std::vector<at::Tensor> values_;
  size_t next_ = 0;
};

/// The graph's output for images [N, C, H, W].
at::Tensor pass(const Graph& graph, const at::Tensor& images, const Made& made);

/// The quantized network in float32 arithmetic.
class Simulation {
 public:
  /// graph: its weights with scales are int8 codes, or the float32 numbers that have yet to become
  /// codes.
  Simulation(Graph graph, Quantization quantization);
  explicit Simulation(const TrainedNetwork& network)
      : Simulation(network.graph, network.quantization) {}

  /// images: float32 [N, C, H, W], normalised -> logits [N, classes].
  at::Tensor operator()(const at::Tensor& images) const { return run(images, {}); }

  /// The same; `made` hears of each value before it is rounded to its codes.
  at::Tensor run(const at::Tensor& images, const Made& made) const;

  /// The same, step by step. The simulation must outlive the pass.
  Pass begin(const at::Tensor& images, Made made) const;

 private:
  Graph graph_;
  Quantization quantization_;
};

/// Hears of a value as the float32 graph has it, and as the simulation has it before it is rounded
/// to its codes.
using MadeTwice =
    std::function<void(size_t value, const at::Tensor& exact, const at::Tensor& simulated)>;

/// Images [N, C, H, W] through both at once, operation by operation, so that no more numbers are
/// held than two passes need. folded: the graph of which the simulation's has the operations.
void side_by_side(const Graph& folded, const Simulation& simulation, const at::Tensor& images,
                  const MadeTwice& made);

/// For each of the values, how large its numbers in the float32 graph are beside what the
/// quantization, simulated, adds to them: 10 log10 of the ratio of the sums of squares, in dB.
std::map<size_t, double> signal_to_noise(const Graph& folded, const Simulation& simulation,
                                         const std::vector<at::Tensor>& images,
                                         const std::set<size_t>& values);

}  // namespace composer

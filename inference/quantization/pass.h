// A pass through a graph, one operation after the other.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

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

}  // namespace composer

// What ranks that have rows of the same images compute, keep and send each other, by a network's
// graph.
#pragma once

#include <vector>

#include "nn/network/cost.h"
#include "nn/network/graph.h"
#include "nn/network/spatial_parallel.h"

namespace composer {

/// What such ranks send each other at once: those that the rank which has most to do gives or
/// takes.
struct RowsSent {
  double values = 0;      ///< of each image, of the type of its activations
  double image_sums = 0;  ///< of each image, float32
  double batch_sums = 0;  ///< of all images together, float32
  double messages = 0;    ///< one after another; 0: nothing is sent
};

/// Follows SpatialParallel through a graph of one image, operation by operation, as a training step
/// runs them: rows of others before convolutions and pools and, in the backward pass, their
/// gradients; a channel's statistics and their gradients' sums (synced_batch_norm); sums of pooled
/// values and of group norms. Sums go around a ring (ring_seconds). Biggest shares of rows are
/// those of the last rank (own_rows).
class RowDivision {
 public:
  /// ranks: that have rows of the same images. trains: else the pass is an evaluation's, whose
  /// batch norms send nothing.
  RowDivision(const Graph& graph, int64_t ranks, bool trains);

  /// Of the rank that has most rows.
  struct Part {
    double computed = 1;  ///< share of the operation's arithmetic
    double kept = 1;      ///< share of the values that it keeps for the backward pass
    double taken = 0;     ///< values of others, of each image, that it keeps beside them
    RowsSent forward{}, backward{};
  };
  /// Of the operation after the last one that was asked for. cost: its own.
  Part next(const Graph::Operation& operation, const Cost& cost);

 private:
  using Known = SpatialParallel::Known;

  Known input_of(const Graph::Operation& operation) const;
  Known output_of(const Graph::Operation& operation, const Known& input) const;
  double largest_share(const Known& known) const;
  RowsSent exchange_before(const Graph::Operation& operation, int64_t height) const;

  const Graph& graph_;
  int64_t ranks_;
  bool trains_;
  std::vector<Known> known_;          ///< of the graph's values
  std::vector<bool> needs_gradient_;  ///< likewise
};

}  // namespace composer

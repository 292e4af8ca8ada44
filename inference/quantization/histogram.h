// How often a tensor has numbers of each size, and the codes that lose least of them.
#pragma once

#include <ATen/ATen.h>

#include "inference/graph/trained_network.h"

namespace composer {

/// As torch.ao.quantization.HistogramObserver, to the bit.
class Histogram {
 public:
  /// values: float32. Infinite ones are left out. Throws RunError for NaN.
  void add(const at::Tensor& values);

  bool empty() const { return !counts_.defined(); }

  /// Codes of so many bits over the range whose mean squared error is the least that a search
  /// finds, which leaves out ever more of the outermost numbers (Caffe2's norm minimization). Not
  /// of an empty one.
  Affine codes(int64_t bits) const;

 private:
  static constexpr int64_t kBins = 2048;

  /// Counts of the bins between `low` and `high`, which have all that the bins have now.
  at::Tensor stretched(float low, float high) const;
  /// Sum of squared errors of 256 codes, each in the middle of its share of these bins.
  double error(int64_t first, int64_t last) const;

  at::Tensor counts_;  ///< float32 [kBins]
  float low_ = 0, high_ = 0;
};

}  // namespace composer

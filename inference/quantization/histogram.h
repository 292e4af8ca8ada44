// The histogram of a tensor, and the codes with the least error for it.
#pragma once

#include <ATen/ATen.h>

#include "inference/graph/trained_network.h"

namespace composer {

/// Computes what torch.ao.quantization.HistogramObserver does, bit by bit.
class Histogram {
 public:
  /// Adds float32 values; infinite values are left out. Throws RunError for NaN.
  void add(const at::Tensor& values);

  bool empty() const { return !counts_.defined(); }

  /// Codes of `bits` bits over the range with the least mean squared error. The search leaves out
  /// more and more of the outermost numbers (Caffe2's norm minimization). Requires !empty().
  Affine codes(int64_t bits) const;

 private:
  static constexpr int64_t kBins = 2048;

  /// The counts redistributed to bins over [low, high], which contains the present range.
  at::Tensor stretched(float low, float high) const;
  /// Sum of squared errors of 256 codes that divide the bins [first, last] evenly.
  double error(int64_t first, int64_t last) const;

  at::Tensor counts_;  ///< float32 [kBins]
  float low_ = 0, high_ = 0;
};

}  // namespace composer

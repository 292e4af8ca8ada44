// The requantization of the integer sums of a layer with codes.
#pragma once

#include "inference/int8_amx.h"
#include "inference/packed_layer.h"

namespace composer {

class Requantizer {
 public:
  Requantizer(const LayerParts& parts, const LayerCodes& codes);

  /// addend: undefined where the layer adds none. The result points into addend, output and this.
  int8_amx::Requantization operator()(const at::Tensor& addend, const at::Tensor& output) const;

 private:
  at::Tensor start_, scale_, offset_;
  int8_amx::Requantization layer_{};  ///< addend and output are set by operator()
};

}  // namespace composer

// What becomes of the integer sums of a layer with codes.
#pragma once

#include "inference/code_tiles.h"
#include "inference/packed_layer.h"

namespace composer {

class Requantizer {
 public:
  Requantizer(const LayerParts& parts, const LayerCodes& codes);

  /// addend: undefined where the layer adds none. Points to both and to what this has.
  code_tiles::Requantization operator()(const at::Tensor& addend, const at::Tensor& output) const;

 private:
  at::Tensor start_, scale_, offset_;
  code_tiles::Requantization layer_{};  ///< without addend and output
};

}  // namespace composer

// low_precision_norm: layer and group normalisation in autocast's 16-bit type instead of float32,
// which halves the memory they read and write. Statistics are still summed up in float32.
// Composer's low_precision_layernorm and low_precision_groupnorm; no paper.
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "algorithms/parts/surgery.h"
#include "composer/recipe/compatibility.h"
#include "nn/network/layers.h"
#include "nn/network/surgery.h"

namespace composer {

/// Reads and writes autocast's type under autocast; else a plain LayerNorm. Shares the tensors of
/// the original.
class LowPrecisionLayerNorm : public LayerNorm {
 public:
  explicit LowPrecisionLayerNorm(const LayerNorm& original) : LayerNorm(original) {}

  std::string describe() const override;

 protected:
  at::Tensor normalize(const at::Tensor& input) override;
};

/// The same for GroupNorm.
class LowPrecisionGroupNorm : public GroupNorm {
 public:
  explicit LowPrecisionGroupNorm(const GroupNorm& original) : GroupNorm(original) {}

  std::string describe() const override;

 protected:
  at::Tensor normalize(const at::Tensor& input) override;
};

/// Batch normalisation reads and writes 16 bits anyway: if a model has only batch normalisation, a
/// warning says that nothing changes.
class LowPrecisionNorm : public Surgery {
 public:
  static Compatibility compatibility();

  void init(State& state) override;
};

/// Replaces every LayerNorm by a LowPrecisionLayerNorm and every GroupNorm by a
/// LowPrecisionGroupNorm. Weights and their names stay. Throws UserError if the model has no
/// normalisation layer.
std::vector<Replacement> apply_low_precision_norm(Block& model);

}  // namespace composer

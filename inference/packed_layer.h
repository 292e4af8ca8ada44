// A convolution or a linear layer, by oneDNN or by kernels of our own, with its weights packed for
// the kernel and with the operations that follow in the same pass.
#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <optional>
#include <vector>

#include "inference/graph/trained_network.h"
#include "nn/network/operations.h"

namespace composer {

class PackedLayer {
 public:
  virtual ~PackedLayer() = default;

  /// input: [N, C, H, W], at least one image, fastest with channels-last strides, or [N, features].
  /// addend: a tensor of the output's shape, or undefined; with `overwrite` the output may take its
  /// memory. Call it in inference mode; thread-safe.
  virtual at::Tensor run(const at::Tensor& input, at::Tensor addend, bool overwrite) const = 0;
};

/// The parts of a layer; the packed layer keeps them.
struct LayerParts {
  at::Tensor weight;                          ///< [out, in / groups, kh, kw] or [out, in]
  at::Tensor bias;                            ///< [out] or undefined
  const Conv2dOptions* convolution;           ///< null: linear
  std::vector<int64_t> input_shape;           ///< the number of images may differ later
  std::optional<OperationKind> activation{};  ///< relu; without an addend also gelu or sigmoid
};

/// A layer that computes in the type of its weight, float32 or bfloat16.
std::unique_ptr<PackedLayer> packed(const LayerParts& parts);

/// The scales and zero points of the codes of a layer.
struct LayerCodes {
  at::Tensor weight_scale;  ///< float32 [out]
  Affine input, addend{};
  std::optional<Affine> output;  ///< empty: the output is float32
  int64_t activation_bits = 8;
};

/// A layer that computes with codes. weight: int8; input and addend: uint8. activation: relu or
/// none.
std::unique_ptr<PackedLayer> packed(const LayerParts& parts, const LayerCodes& codes);

/// The same layer by oneDNN's operators, which support every layer that packed() does.
std::unique_ptr<PackedLayer> onednn_layer(const LayerParts& parts, const LayerCodes& codes);

}  // namespace composer

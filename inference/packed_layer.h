// A convolution or a linear layer, by oneDNN or by kernels of our own: its weights in the order in
// which these read them, and what follows in the same pass.
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
  /// addend: of the output's shape, defined where the layer was made to add one; with `overwrite`
  /// the output may take its memory. To be called in inference mode, from any thread.
  virtual at::Tensor run(const at::Tensor& input, at::Tensor addend, bool overwrite) const = 0;
};

/// What a layer is packed from, which it keeps.
struct LayerParts {
  at::Tensor weight;                          ///< [out, in / groups, kh, kw] or [out, in]
  at::Tensor bias;                            ///< [out] or undefined
  const Conv2dOptions* convolution;           ///< null: linear
  std::vector<int64_t> input_shape;           ///< with any number of images
  std::optional<OperationKind> activation{};  ///< relu; or gelu or sigmoid, where it does not add
};

/// Computes in the type of its weight, float32 or bfloat16.
std::unique_ptr<PackedLayer> packed(const LayerParts& parts);

/// What the codes of a layer mean.
struct LayerCodes {
  at::Tensor weight_scale;  ///< float32 [out]
  Affine input, addend{};
  std::optional<Affine> output;  ///< nothing: the output is float32
  int64_t activation_bits = 8;
};

/// weight: int8; input and addend: uint8. activation: relu or nothing.
std::unique_ptr<PackedLayer> packed(const LayerParts& parts, const LayerCodes& codes);

/// Every layer that packed() takes.
std::unique_ptr<PackedLayer> onednn_layer(const LayerParts& parts, const LayerCodes& codes);

}  // namespace composer

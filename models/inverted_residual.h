// Inverted residual blocks, the blocks of mobile networks (Sandler et al. 2018, arXiv:1801.04381),
// with torchvision's parameter names.
#pragma once

#include <memory>
#include <string>

#include "nn/network/layers.h"
#include "nn/network/library_names.h"

namespace composer {

/// What follows a norm; relu is computed together with it.
enum class Nonlinearity { none, relu, silu, hardswish };

struct ConvNormOptions {
  int64_t in_channels, out_channels;
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t groups = 1;
  Nonlinearity nonlinearity = Nonlinearity::none;
  double eps = 1e-5;  ///< of the norm, as momentum
  double momentum = 0.1;
};

/// "0" a convolution without bias that keeps the size for stride 1, "1" BatchNorm2d, "2" the
/// activation.
std::shared_ptr<Layer> conv_norm(const ConvNormOptions& options);

struct InvertedResidualOptions {
  int64_t in_channels, expanded, out_channels;
  int64_t kernel = 3;
  int64_t stride = 1;
  int64_t squeezed = 0;  ///< channels within squeeze-and-excitation; 0: there is none
  Nonlinearity nonlinearity = Nonlinearity::relu;
  bool hard_gate = false;  ///< gates are hardsigmoids of relu, else sigmoids of silu
  double eps = 1e-5;
  double momentum = 0.1;
};

/// "block": 1x1 to `expanded` channels (absent where there are as many), depthwise, gates, 1x1 to
/// out_channels. A ResidualBlock without activation behind it where stride and channels stay.
std::shared_ptr<Layer> inverted_residual(const InvertedResidualOptions& options);

/// Adds the paths of the layers of an inverted_residual at `ours` in timm's block at `theirs`.
/// expands, gated: whether it has more channels inside than it is given, and gates.
void add_timm_block(LibraryNames& names, const std::string& ours, const std::string& theirs,
                    bool expands, bool gated);

/// The multiple of 8 next to `channels`, up where that would take more than a tenth away.
int64_t multiple_of_8(double channels);

}  // namespace composer

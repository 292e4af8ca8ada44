// Inverted residual blocks, the blocks of mobile networks (Sandler et al. 2018, arXiv:1801.04381),
// with torchvision's parameter names.
#pragma once

#include <memory>
#include <string>

#include "nn/network/layers.h"
#include "nn/network/library_names.h"

namespace composer {

/// The activation after a norm; relu is computed together with the norm.
enum class Nonlinearity { none, relu, silu, hardswish };

struct ConvNormOptions {
  int64_t in_channels, out_channels;
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t groups = 1;
  Nonlinearity nonlinearity = Nonlinearity::none;
  double eps = 1e-5;  ///< eps and momentum of the norm
  double momentum = 0.1;
};

/// "0" a convolution without bias that keeps the size for stride 1, "1" BatchNorm2d, "2" the
/// activation.
std::shared_ptr<Layer> conv_norm(const ConvNormOptions& options);

struct InvertedResidualOptions {
  int64_t in_channels, expanded, out_channels;
  int64_t kernel = 3;
  int64_t stride = 1;
  int64_t squeezed = 0;  ///< channels within squeeze-and-excitation; 0: no squeeze-and-excitation
  Nonlinearity nonlinearity = Nonlinearity::relu;
  bool hard_gate = false;  ///< gates are hardsigmoids of relu, else sigmoids of silu
  double eps = 1e-5;
  double momentum = 0.1;
};

/// "block": 1x1 convolution to `expanded` channels (left out where in_channels == expanded),
/// depthwise convolution, gates, 1x1 convolution to out_channels. A ResidualBlock without an
/// activation after the sum, where stride is 1 and the number of channels stays.
std::shared_ptr<Layer> inverted_residual(const InvertedResidualOptions& options);

/// Maps the layers of an inverted_residual at path `ours` to timm's block at path `theirs`.
/// expands: expanded > in_channels. gated: the block has squeeze-and-excitation.
void add_timm_block(LibraryNames& names, const std::string& ours, const std::string& theirs,
                    bool expands, bool gated);

/// `channels` rounded to a multiple of 8, but never down by more than a tenth.
int64_t multiple_of_8(double channels);

}  // namespace composer

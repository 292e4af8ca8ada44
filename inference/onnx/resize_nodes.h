// The evaluation's resize and crop as ONNX nodes.
#pragma once

#include <string>

#include "composer/loop/loader.h"
#include "inference/onnx/onnx_graph.h"

namespace composer {

/// Adds the nodes that resize and crop images as the preparation says, with the filter "triangle"
/// or "bicubic". images: uint8 [N, H, W, C], N, H and W of any size. Returns the name of float32
/// [N, C, height, width] of bytes 0..255: of each byte of the evaluation's own pixels at most one
/// away, two where it enlarges. portable: multiplies by matrices of weights, as operator set 17
/// can, in place of an antialiased Resize, which operator set 18 has and some runtimes compute
/// without antialiasing.
std::string resized_planes(OnnxGraph& onnx, const std::string& images,
                           const Preparation& preparation, const std::string& filter,
                           bool portable);

/// Adds the nodes that turn uint8 [N, H, W, C] into float32 [N, C, H, W].
std::string planes(OnnxGraph& onnx, const std::string& images);

}  // namespace composer

// Normalisation of images on the current GPU: what normalize.cpp, which knows tensors, asks of
// normalize.cu, which knows none. Memory is that of the GPU; nothing is waited for.
#pragma once

#include <cstdint>

#include "cuda/launch.h"

namespace composer::cuda {

/// images: [samples, pixels, channels], at a multiple of 8 in memory; channels: 1 or 3. output: of
/// `type`, at a multiple of 16, [samples, channels, pixels] where planar, else as the images.
struct NormalizeArguments {
  NumberType type;
  int64_t samples, pixels;
  int channels;
  bool planar;
  float scale[3], shift[3];  ///< byte * scale + shift
  const uint8_t* images;
  void* output;
};

/// Queues the work on `stream`, a cudaStream_t. What cudaGetLastError() says.
int normalize_images(const NormalizeArguments& arguments, void* stream);

}  // namespace composer::cuda

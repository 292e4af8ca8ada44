// Normalisation of images on the current GPU: the interface from normalize.cpp, which knows
// tensors, to normalize.cu, which knows none. Pointers are to GPU memory; the calls do not wait.
#pragma once

#include <cstdint>

#include "cuda/launch.h"

namespace composer::cuda {

/// images: [samples, pixels, channels], aligned to 8 bytes; channels: 1 or 3. output: of `type`,
/// aligned to 16 bytes, [samples, channels, pixels] if planar, else laid out as the images.
struct NormalizeArguments {
  NumberType type;
  int64_t samples, pixels;
  int channels;
  bool planar;
  float scale[3], shift[3];  ///< byte * scale + shift
  const uint8_t* images;
  void* output;
};

/// Queues the work on `stream`, a cudaStream_t. Returns cudaGetLastError().
int normalize_images(const NormalizeArguments& arguments, void* stream);

}  // namespace composer::cuda

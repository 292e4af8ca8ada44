// Tensors as arguments of the kernels of normalisation.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#include "cuda/normalize_launch.h"
#include "cuda/type_of.h"

namespace composer::cuda {

/// images: uint8 [N, H, W, C]. scale, shift: [C]. output: [N, C, H, W], contiguous in one of the
/// two memory formats. Nothing if the kernels do not take these tensors.
inline std::optional<NormalizeArguments> normalize_arguments(const at::Tensor& images,
                                                             const float* scale, const float* shift,
                                                             const at::Tensor& output) {
  const auto place = [](const void* memory) { return reinterpret_cast<uintptr_t>(memory); };
  const auto type = number_type(output.scalar_type());
  const int64_t channels = images.size(3);
  if (!type || images.numel() == 0 || (channels != 1 && channels != 3) || !images.is_contiguous() ||
      place(images.const_data_ptr()) % 8 != 0 || place(output.const_data_ptr()) % 16 != 0)
    return std::nullopt;
  NormalizeArguments given{};
  given.type = *type;
  given.samples = images.size(0), given.pixels = images.size(1) * images.size(2);
  given.channels = static_cast<int>(channels);
  given.planar = !output.is_contiguous(at::MemoryFormat::ChannelsLast);
  std::copy_n(scale, channels, given.scale);
  std::copy_n(shift, channels, given.shift);
  given.images = images.const_data_ptr<uint8_t>();
  given.output = output.mutable_data_ptr();
  return given;
}

}  // namespace composer::cuda

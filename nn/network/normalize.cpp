#include "nn/network/normalize.h"

#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <map>
#include <mutex>
#include <string>
#include <tuple>

#include "base/error.h"
#include "base/loading/pixel_normalizer.h"
#include "nn/device/cuda_library.h"

namespace composer {
namespace {

PixelNormalizer normalizer_of(const Normalization& normalization) {
  return {normalization.mean, normalization.std};
}

void normalize_planar(const uint8_t* in, float* out, int64_t pixels, int64_t channels,
                      const PixelNormalizer& normalizer) {
  for (int64_t c = 0; c < channels; ++c) {
    const auto channel = static_cast<size_t>(c);
    const float scale = normalizer.scale()[channel], shift = normalizer.shift()[channel];
    for (int64_t i = 0; i < pixels; ++i)
      out[c * pixels + i] = static_cast<float>(in[i * channels + c]) * scale + shift;
  }
}

/// scale and shift of a normalization, float32 [1, C, 1, 1].
struct Constants {
  at::Tensor scale, shift;
};

/// The constants on the device; they stay there from the first call on.
const Constants& constants_on(at::Device device, const Normalization& normalization) {
  using Key = std::tuple<std::string, std::vector<double>, std::vector<double>>;
  static std::mutex mutex;
  // Never destroyed: at exit the device's allocator may be gone.
  static auto* const kept = new std::map<Key, Constants>;
  const std::lock_guard lock(mutex);
  const Key key{device.str(), normalization.mean, normalization.std};
  if (const auto found = kept->find(key); found != kept->end()) return found->second;
  const c10::InferenceMode off(false);  // the constants serve training steps too
  const auto normalizer = normalizer_of(normalization);
  const auto channels = static_cast<int64_t>(normalization.mean.size());
  const auto constant = [&](const std::vector<float>& values) {
    return at::tensor(values).narrow(0, 0, channels).view({1, channels, 1, 1}).to(device);
  };
  return (*kept)[key] = {constant(normalizer.scale()), constant(normalizer.shift())};
}

/// The function of libcomposer_cuda.so; null where it has none or cannot be opened.
NormalizeOnGpu* gpu_normalize() {
  static auto* const function =
      reinterpret_cast<NormalizeOnGpu*>(faster_function_of_cuda_library("composer_normalize"));
  return function;
}

/// Uses composer's own kernel; undefined where there is none.
at::Tensor normalize_on_gpu(const at::Tensor& images, const Normalization& normalization,
                            at::MemoryFormat format, at::ScalarType type) {
  if (!images.is_cuda() || gpu_normalize() == nullptr) return {};
  const auto normalizer = normalizer_of(normalization);
  const auto output = at::empty({images.size(0), images.size(3), images.size(1), images.size(2)},
                                images.options().dtype(type), format);
  const bool done = gpu_normalize()(images.contiguous(), normalizer.scale().data(),
                                    normalizer.shift().data(), output);
  return done ? output : at::Tensor();
}

/// Uses LibTorch's operators.
at::Tensor normalize_on_device(const at::Tensor& images, const Normalization& normalization,
                               at::MemoryFormat format) {
  const auto& [scale, shift] = constants_on(images.device(), normalization);
  return at::addcmul(shift, images.permute({0, 3, 1, 2}).to(at::kFloat, false, false, format),
                     scale);
}

}  // namespace

at::Tensor normalize(const at::Tensor& images, const Normalization& normalization,
                     at::MemoryFormat format, at::ScalarType type) {
  const int64_t samples = images.size(0), pixels = images.size(1) * images.size(2),
                channels = images.size(3);
  if (images.scalar_type() != at::kByte)
    throw RunError("images to be normalised must be bytes, not " +
                   std::string(at::toString(images.scalar_type())));
  if (channels != static_cast<int64_t>(normalization.mean.size()))
    throw RunError("images have " + std::to_string(channels) + " channels, their normalisation " +
                   std::to_string(normalization.mean.size()));
  if (auto output = normalize_on_gpu(images, normalization, format, type); output.defined())
    return output;
  if (!images.is_cpu()) return normalize_on_device(images, normalization, format).to(type);

  const auto normalizer = normalizer_of(normalization);
  auto out = at::empty({samples, channels, images.size(1), images.size(2)},
                       at::TensorOptions(at::kFloat), format);
  const auto bytes = images.contiguous();
  const uint8_t* in = bytes.const_data_ptr<uint8_t>();
  float* to = out.mutable_data_ptr<float>();
  const int64_t size = pixels * channels;
  at::parallel_for(0, samples, 1, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n)
      if (format == at::MemoryFormat::ChannelsLast)
        normalizer.run(in + n * size, size, to + n * size);
      else
        normalize_planar(in + n * size, to + n * size, pixels, channels, normalizer);
  });
  return out.to(type);
}

at::Tensor pixel_values(const at::Tensor& input, const Normalization& normalization) {
  const auto channels = [&](const std::vector<double>& values) {
    return at::tensor(values, at::kFloat).to(input.device()).view({1, -1, 1, 1});
  };
  return input.to(at::kFloat) * channels(normalization.std) + channels(normalization.mean);
}

at::Tensor to_bytes(const at::Tensor& pixels) {
  return pixels.round().clamp(0, 255).to(at::kByte).permute({0, 2, 3, 1}).contiguous();
}

}  // namespace composer

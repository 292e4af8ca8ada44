#include "inference/quantization/codes.h"

#include <ATen/Parallel.h>

#include <cmath>
#include <limits>
#include <type_traits>

#include "nn/device/cpu_instructions.h"
#include "nn/network/normalize.h"

namespace composer {
namespace {

constexpr float kLeastScale = std::numeric_limits<float>::epsilon();

/// channels: a compile-time constant where it is known, so that the inner loop is unrolled.
void look_up(const uint8_t* pixels, int64_t count, auto channels, const uint8_t* table,
             uint8_t* codes) {
  for (int64_t i = 0; i < count * channels; i += channels)
    for (int64_t c = 0; c < channels; ++c) codes[i + c] = table[pixels[i + c] * channels + c];
}

}  // namespace

at::Tensor for_each_output(const at::Tensor& scales, int64_t dimensions) {
  std::vector<int64_t> shape(static_cast<size_t>(dimensions), 1);
  shape[0] = -1;
  return scales.view(shape);
}

int64_t activation_bits_here() {
  const bool overflows = has_instructions("sse2") && !has_instructions("avx512_vnni") &&
                         !has_instructions("avx_vnni") && !has_instructions("amx_int8");
  return overflows ? 7 : 8;
}

Affine codes_over(float low, float high, int64_t bits) {
  const auto most = static_cast<float>((int64_t{1} << bits) - 1);
  low = std::min(low, 0.0F), high = std::max(high, 0.0F);
  const float scale = std::max((high - low) / most, kLeastScale);
  return {scale, static_cast<int64_t>(std::clamp(-std::nearbyint(low / scale), 0.0F, most))};
}

at::Tensor rounded_to_codes(const at::Tensor& values, const Affine& codes, int64_t bits) {
  return at::fake_quantize_per_tensor_affine(values, codes.scale, codes.zero_point, 0,
                                             (int64_t{1} << bits) - 1);
}

at::Tensor scales_of(const at::Tensor& weight) {
  return (weight.flatten(1).abs().amax(1) / 127.5F).clamp_min(kLeastScale);
}

at::Tensor codes_of(const at::Tensor& weight, const at::Tensor& scales) {
  return (weight * for_each_output(scales.reciprocal(), weight.dim()))
      .round_()
      .clamp_(-128, 127)
      .to(at::kChar)
      .contiguous();
}

at::Tensor numbers_of(const at::Tensor& codes, const at::Tensor& scales) {
  return codes.to(at::kFloat) * for_each_output(scales, codes.dim());
}

at::Tensor codes_of(const at::Tensor& numbers, const Affine& affine, int64_t bits) {
  auto codes =
      at::quantize_per_tensor(numbers, affine.scale, affine.zero_point, at::kQUInt8).int_repr();
  if (bits < 8) codes.clamp_max_((int64_t{1} << bits) - 1);
  return codes;
}

at::Tensor numbers_of(const at::Tensor& codes, const Affine& affine) {
  return at::_make_per_tensor_quantized_tensor(codes, affine.scale, affine.zero_point).dequantize();
}

at::Tensor pixel_codes(const Normalization& normalization, const Affine& affine, int64_t bits) {
  const auto channels = std::ssize(normalization.mean);
  const auto bytes = at::arange(256, at::kByte).view({1, 256, 1, 1}).expand({1, 256, 1, channels});
  const auto pixels = normalize(bytes, normalization, at::MemoryFormat::ChannelsLast);
  return codes_of(pixels.permute({0, 2, 3, 1}).contiguous(), affine, bits).view({256, channels});
}

at::Tensor looked_up(const at::Tensor& images, const at::Tensor& pixel_codes) {
  const auto bytes = images.contiguous();
  auto codes = at::empty_like(bytes);
  const int64_t channels = images.size(3);
  const auto* const in = bytes.const_data_ptr<uint8_t>();
  const auto* const table = pixel_codes.const_data_ptr<uint8_t>();
  auto* const out = codes.mutable_data_ptr<uint8_t>();
  at::parallel_for(0, bytes.numel() / channels, 1 << 14, [&](int64_t begin, int64_t end) {
    const int64_t first = begin * channels, count = end - begin;
    if (channels == 3)
      look_up(in + first, count, std::integral_constant<int64_t, 3>(), table, out + first);
    else
      look_up(in + first, count, channels, table, out + first);
  });
  return codes.permute({0, 3, 1, 2});
}

}  // namespace composer

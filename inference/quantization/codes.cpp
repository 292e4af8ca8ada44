#include "inference/quantization/codes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "nn/device/cpu_instructions.h"

namespace composer {
namespace {

constexpr float kLeastScale = std::numeric_limits<float>::epsilon();

/// [out] as something that multiplies [out, ...].
at::Tensor for_each_output(const at::Tensor& scales, int64_t dimensions) {
  std::vector<int64_t> shape(static_cast<size_t>(dimensions), 1);
  shape[0] = -1;
  return scales.view(shape);
}

}  // namespace

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

}  // namespace composer

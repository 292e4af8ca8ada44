#include "inference/requantizer.h"

#include <ATen/Parallel.h>

namespace composer {
namespace {

/// Padded with zeros up to the end of the last block.
at::Tensor in_blocks(const at::Tensor& of_channels, at::ScalarType type) {
  const int64_t count = of_channels.size(0);
  auto padded = at::zeros({at::divup(count, int8_amx::channels) * int8_amx::channels}, type);
  padded.slice(0, 0, count).copy_(of_channels);
  return padded;
}

}  // namespace

/// Outputs are in units of the output's scale, relative to its zero point.
Requantizer::Requantizer(const LayerParts& parts, const LayerCodes& codes) {
  const double unit = codes.output ? codes.output->scale : 1.0;
  const int64_t out_channels = parts.weight.size(0);
  const auto sums = parts.weight.flatten(1).sum(1, /*keepdim=*/false, at::kInt);
  start_ = in_blocks(sums.mul(-codes.input.zero_point), at::kInt);
  scale_ = in_blocks(codes.weight_scale.to(at::kDouble) * (codes.input.scale / unit), at::kFloat);
  const double addend_scale = codes.addend.scale / unit;
  auto offset = at::full({out_channels},
                         -addend_scale * static_cast<double>(codes.addend.zero_point), at::kDouble);
  if (parts.bias.defined()) offset += parts.bias.to(at::kDouble) / unit;
  offset_ = in_blocks(offset, at::kFloat);
  layer_ = {.start = start_.const_data_ptr<int32_t>(),
            .scale = scale_.const_data_ptr<float>(),
            .offset = offset_.const_data_ptr<float>(),
            .out_channels = out_channels,
            .addend = nullptr,
            .addend_scale = static_cast<float>(addend_scale),
            .relu = parts.activation.has_value(),
            .zero_point = static_cast<int16_t>(codes.output ? codes.output->zero_point : 0),
            .most_code = static_cast<uint8_t>((1 << codes.activation_bits) - 1),
            .codes = nullptr,
            .numbers = nullptr};
}

int8_amx::Requantization Requantizer::operator()(const at::Tensor& addend,
                                                 const at::Tensor& output) const {
  auto layer = layer_;
  if (addend.defined()) layer.addend = addend.const_data_ptr<uint8_t>();
  if (output.scalar_type() == at::kByte)
    layer.codes = output.mutable_data_ptr<uint8_t>();
  else
    layer.numbers = output.mutable_data_ptr<float>();
  return layer;
}

}  // namespace composer

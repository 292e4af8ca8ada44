#include "inference/code_layer.h"

#include <string_view>

#include "inference/code_winograd.h"
#include "inference/onednn.h"
#include "inference/packed_layer.h"
#include "inference/packed_weights.h"
#include "inference/tile_layer.h"

namespace composer {
namespace {

using Integers = c10::List<int64_t>;

Integers integers(const auto& values) {
  Integers list;
  for (const int64_t value : values) list.push_back(value);
  return list;
}

/// What convolutions and linear layers have in common.
class CodeLayer : public PackedLayer {
 protected:
  CodeLayer(const LayerParts& parts, const LayerCodes& codes)
      : scales_(codes.weight_scale.contiguous()),
        zero_points_(at::zeros({parts.weight.size(0)}, at::kLong)),
        activation_(parts.activation ? "relu" : "none"),
        codes_(codes) {
    if (parts.bias.defined()) bias_ = parts.bias.to(at::kFloat);
  }

  at::ScalarType output_type() const { return codes_.output ? at::kByte : at::kFloat; }
  Affine output() const { return codes_.output.value_or(Affine{}); }

  /// Of fewer bits than oneDNN's.
  at::Tensor in_range(at::Tensor output) const {
    if (codes_.output && codes_.activation_bits < 8)
      output.clamp_max_((int64_t{1} << codes_.activation_bits) - 1);
    return output;
  }

  at::Tensor scales_, zero_points_;
  std::optional<at::Tensor> bias_;
  std::string_view activation_;
  LayerCodes codes_;
};

class CodeConv2d : public CodeLayer {
 public:
  CodeConv2d(const LayerParts& parts, const LayerCodes& codes)
      : CodeLayer(parts, codes),
        stride_(integers(parts.convolution->stride)),
        padding_(integers(parts.convolution->padding)),
        dilation_(integers(parts.convolution->dilation)),
        groups_(parts.convolution->groups),
        weight_(parts.input_shape, [this, weight = parts.weight](const auto& input) {
          return reordered(weight, integers(input));
        }) {}

  at::Tensor run(const at::Tensor& input, at::Tensor addend, bool overwrite) const override {
    if (!addend.defined()) return in_range(without_addend(input));
    addend = addend.contiguous(at::MemoryFormat::ChannelsLast);
    static const auto convolve = find_operator<at::Tensor(
        at::Tensor, double, int64_t, at::Tensor, at::Tensor, at::Tensor, at::Tensor,
        std::optional<at::Tensor>, Integers, Integers, Integers, int64_t, double, int64_t,
        std::optional<at::ScalarType>, double, int64_t, std::string_view, std::optional<at::Scalar>,
        OptionalText, OptionalScalars, OptionalText)>("onednn::qconv2d_pointwise", "binary");
    return in_range(convolve.call(
        input, codes_.input.scale, codes_.input.zero_point, weight_.for_images(input.size(0)),
        scales_, zero_points_, overwrite ? addend : addend.clone(), bias_, stride_, padding_,
        dilation_, groups_, output().scale, output().zero_point, output_type(), codes_.addend.scale,
        codes_.addend.zero_point, "sum", at::Scalar(1.0), activation_, OptionalScalars(), ""));
  }

 private:
  at::Tensor reordered(const at::Tensor& weight, const Integers& input_shape) const {
    static const auto reorder =
        find_operator<at::Tensor(at::Tensor, at::Tensor, double, int64_t, Integers, Integers,
                                 Integers, int64_t, std::optional<Integers>)>(
            "onednn::qconv_prepack");
    return reorder.call(weight, scales_, codes_.input.scale, codes_.input.zero_point, stride_,
                        padding_, dilation_, groups_, input_shape);
  }

  at::Tensor without_addend(const at::Tensor& input) const {
    static const auto convolve = find_operator<at::Tensor(
        at::Tensor, double, int64_t, at::Tensor, at::Tensor, at::Tensor, std::optional<at::Tensor>,
        Integers, Integers, Integers, int64_t, double, int64_t, std::optional<at::ScalarType>,
        std::string_view, OptionalScalars, OptionalText)>("onednn::qconv_pointwise");
    return convolve.call(input, codes_.input.scale, codes_.input.zero_point,
                         weight_.for_images(input.size(0)), scales_, zero_points_, bias_, stride_,
                         padding_, dilation_, groups_, output().scale, output().zero_point,
                         output_type(), activation_, OptionalScalars(), "");
  }

  Integers stride_, padding_, dilation_;
  int64_t groups_;
  PackedWeights weight_;
};

class CodeLinear : public CodeLayer {
 public:
  CodeLinear(const LayerParts& parts, const LayerCodes& codes)
      : CodeLayer(parts, codes),
        weight_(parts.input_shape, [weight = parts.weight](const auto& input) {
          static const auto reorder =
              find_operator<at::Tensor(at::Tensor, std::optional<Integers>)>(
                  "onednn::qlinear_prepack");
          return reorder.call(weight, integers(input));
        }) {}

  at::Tensor run(const at::Tensor& input, at::Tensor, bool) const override {
    static const auto multiply = find_operator<at::Tensor(
        at::Tensor, double, int64_t, at::Tensor, at::Tensor, at::Tensor, std::optional<at::Tensor>,
        double, int64_t, std::optional<at::ScalarType>, std::string_view, OptionalScalars,
        std::string_view)>("onednn::qlinear_pointwise");
    return in_range(multiply.call(input.contiguous(), codes_.input.scale, codes_.input.zero_point,
                                  weight_.for_images(input.size(0)), scales_, zero_points_, bias_,
                                  output().scale, output().zero_point, output_type(), activation_,
                                  OptionalScalars(), ""));
  }

 private:
  PackedWeights weight_;
};

}  // namespace

std::unique_ptr<PackedLayer> onednn_layer(const LayerParts& parts, const LayerCodes& codes) {
  if (parts.convolution != nullptr) return std::make_unique<CodeConv2d>(parts, codes);
  return std::make_unique<CodeLinear>(parts, codes);
}

std::unique_ptr<PackedLayer> packed(const LayerParts& parts, const LayerCodes& codes) {
  if (code_winograd_takes(parts, codes) && code_winograd_is_quicker(parts))
    return packed_by_code_winograd(parts, codes);
  if (tile_layer_takes(parts, codes)) return tile_layer(parts, codes, *code_instructions());
  return onednn_layer(parts, codes);
}

}  // namespace composer

#include "inference/packed_layer.h"

#include <string_view>

#include "inference/onednn.h"
#include "inference/packed_weights.h"
#include "inference/winograd.h"
#include "nn/device/optional_tensor.h"

namespace composer {
namespace {

/// oneDNN's word.
std::string_view word_of(std::optional<OperationKind> activation) {
  return activation ? name(*activation) : "none";
}

class PackedConv2d : public PackedLayer {
 public:
  explicit PackedConv2d(const LayerParts& parts)
      : options_(*parts.convolution),
        bias_(if_defined(parts.bias)),
        weight_(parts.input_shape,
                [weight = parts.weight, options = options_](const auto& input) {
                  return reordered(weight, options, input);
                }),
        activation_(word_of(parts.activation)) {
    if (parts.activation) of_sum_ = activation_;
  }

  at::Tensor run(const at::Tensor& input, at::Tensor addend, bool overwrite) const override {
    if (!addend.defined()) return without_addend(input);
    addend = addend.contiguous(at::MemoryFormat::ChannelsLast);
    if (overwrite) return into(addend, input);
    static const auto convolve = find_operator<at::Tensor(
        const at::Tensor&, const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
        at::IntArrayRef, at::IntArrayRef, at::IntArrayRef, int64_t, std::string_view,
        std::optional<at::Scalar>, OptionalText, OptionalScalars, OptionalText)>(
        "mkldnn::_convolution_pointwise", "binary");
    return convolve.call(input, addend, weight_.for_images(input.size(0)), bias_, options_.padding,
                         options_.stride, options_.dilation, options_.groups, "add",
                         at::Scalar(1.0), of_sum_, OptionalScalars(), "none");
  }

 private:
  static at::Tensor reordered(const at::Tensor& weight, const Conv2dOptions& options,
                              const std::vector<int64_t>& input_shape) {
    static const auto reorder =
        find_operator<at::Tensor(const at::Tensor&, at::IntArrayRef, at::IntArrayRef,
                                 at::IntArrayRef, int64_t, at::OptionalIntArrayRef)>(
            "mkldnn::_reorder_convolution_weight");
    return reorder.call(weight, options.padding, options.stride, options.dilation, options.groups,
                        at::OptionalIntArrayRef(input_shape));
  }

  at::Tensor without_addend(const at::Tensor& input) const {
    static const auto convolve = find_operator<at::Tensor(
        const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&, at::IntArrayRef,
        at::IntArrayRef, at::IntArrayRef, int64_t, std::string_view, OptionalScalars,
        OptionalText)>("mkldnn::_convolution_pointwise");
    return convolve.call(input, weight_.for_images(input.size(0)), bias_, options_.padding,
                         options_.stride, options_.dilation, options_.groups, activation_,
                         OptionalScalars(), "none");
  }

  at::Tensor into(at::Tensor& addend, const at::Tensor& input) const {
    static const auto convolve = find_operator<at::Tensor&(
        at::Tensor&, const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
        at::IntArrayRef, at::IntArrayRef, at::IntArrayRef, int64_t, std::string_view,
        std::optional<at::Scalar>, OptionalText, OptionalScalars, OptionalText)>(
        "mkldnn::_convolution_pointwise_", "binary");
    return convolve.call(addend, input, weight_.for_images(input.size(0)), bias_, options_.padding,
                         options_.stride, options_.dilation, options_.groups, "add",
                         at::Scalar(1.0), of_sum_, OptionalScalars(), "none");
  }

  Conv2dOptions options_;
  std::optional<at::Tensor> bias_;
  PackedWeights weight_;
  std::string_view activation_;
  OptionalText of_sum_;  ///< the same, as sums want it
};

class PackedLinear : public PackedLayer {
 public:
  explicit PackedLinear(const LayerParts& parts)
      : bias_(if_defined(parts.bias)),
        weight_(parts.input_shape,
                [weight = parts.weight](const auto& input) {
                  static const auto reorder =
                      find_operator<at::Tensor(const at::Tensor&, std::optional<int64_t>)>(
                          "mkldnn::_reorder_linear_weight");
                  return reorder.call(weight, input[0]);
                }),
        activation_(word_of(parts.activation)) {}

  at::Tensor run(const at::Tensor& input, at::Tensor, bool) const override {
    static const auto multiply = find_operator<at::Tensor(
        const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&, std::string_view,
        OptionalScalars, OptionalText)>("mkldnn::_linear_pointwise");
    return multiply.call(input.contiguous(), weight_.for_images(input.size(0)), bias_, activation_,
                         OptionalScalars(), "none");
  }

 private:
  std::optional<at::Tensor> bias_;
  PackedWeights weight_;
  std::string_view activation_;
};

}  // namespace

std::unique_ptr<PackedLayer> packed(const LayerParts& parts) {
  if (const int64_t size = winograd_tile_size(parts); size > 0)
    return packed_by_winograd(parts, size);
  if (parts.convolution != nullptr) return std::make_unique<PackedConv2d>(parts);
  return std::make_unique<PackedLinear>(parts);
}

}  // namespace composer

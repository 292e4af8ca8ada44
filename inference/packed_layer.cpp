#include "inference/packed_layer.h"

#include <ATen/Parallel.h>

#include <mutex>

#include "inference/int8_layer.h"
#include "inference/int8_winograd_layer.h"
#include "inference/onednn.h"
#include "inference/winograd.h"
#include "nn/device/optional_tensor.h"

namespace composer {
namespace {

/// A layer's weights, packed for oneDNN. The best order depends on the number of images and
/// threads; with weights in another order each call would reorder them. Each order is made at its
/// first use, and the most recently used orders are kept.
class PackedWeights {
 public:
  using Shape = std::vector<int64_t>;
  using Pack = std::function<at::Tensor(const Shape& input)>;
  /// input: the shape of the layer's input; its number of images does not matter.
  PackedWeights(Shape input, Pack pack) : input_(std::move(input)), pack_(std::move(pack)) {}

  /// Thread-safe.
  at::Tensor for_images(int64_t images) const {
    const Work work{images, at::get_num_threads()};
    const std::lock_guard lock(mutex_);
    auto found = std::ranges::find(packed_, work, &std::pair<Work, at::Tensor>::first);
    if (found == packed_.end()) {
      if (packed_.size() == most_kept) packed_.pop_back();
      auto input = input_;
      input[0] = images;
      found = packed_.emplace(packed_.end(), work, pack_(input));
    }
    std::rotate(packed_.begin(), found, found + 1);
    return packed_.front().second;
  }

 private:
  static constexpr size_t most_kept = 4;

  /// The key of an order.
  struct Work {
    int64_t images;
    int threads;
    bool operator==(const Work&) const = default;
  };

  const Shape input_;
  const Pack pack_;
  mutable std::mutex mutex_;
  mutable std::vector<std::pair<Work, at::Tensor>> packed_;  ///< most recently used first
};

/// oneDNN's name of the activation.
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
  OptionalText of_sum_;  ///< activation_, or empty where there is none
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

using Integers = c10::List<int64_t>;

Integers integers(const auto& values) {
  Integers list;
  for (const int64_t value : values) list.push_back(value);
  return list;
}

/// The members that oneDNN's convolutions and linear layers with codes share.
class OnednnInt8Layer : public PackedLayer {
 protected:
  OnednnInt8Layer(const LayerParts& parts, const LayerCodes& codes)
      : scales_(codes.weight_scale.contiguous()),
        zero_points_(at::zeros({parts.weight.size(0)}, at::kLong)),
        activation_(parts.activation ? "relu" : "none"),
        codes_(codes) {
    if (parts.bias.defined()) bias_ = parts.bias.to(at::kFloat);
  }

  at::ScalarType output_type() const { return codes_.output ? at::kByte : at::kFloat; }
  Affine output() const { return codes_.output.value_or(Affine{}); }

  /// Clamps codes of fewer than 8 bits, which oneDNN does not know.
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

class Int8Conv2d : public OnednnInt8Layer {
 public:
  Int8Conv2d(const LayerParts& parts, const LayerCodes& codes)
      : OnednnInt8Layer(parts, codes),
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

class Int8Linear : public OnednnInt8Layer {
 public:
  Int8Linear(const LayerParts& parts, const LayerCodes& codes)
      : OnednnInt8Layer(parts, codes),
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

std::unique_ptr<PackedLayer> packed(const LayerParts& parts) {
  if (const int64_t size = winograd_tile_size(parts); size > 0)
    return packed_by_winograd(parts, size);
  if (parts.convolution != nullptr) return std::make_unique<PackedConv2d>(parts);
  return std::make_unique<PackedLinear>(parts);
}

std::unique_ptr<PackedLayer> onednn_layer(const LayerParts& parts, const LayerCodes& codes) {
  if (parts.convolution != nullptr) return std::make_unique<Int8Conv2d>(parts, codes);
  return std::make_unique<Int8Linear>(parts, codes);
}

std::unique_ptr<PackedLayer> packed(const LayerParts& parts, const LayerCodes& codes) {
  if (int8_winograd_takes(parts, codes) && int8_winograd_is_quicker(parts))
    return packed_by_int8_winograd(parts, codes);
  if (int8_layer_takes(parts, codes)) return int8_layer(parts, codes, *int8_instructions());
  return onednn_layer(parts, codes);
}

}  // namespace composer

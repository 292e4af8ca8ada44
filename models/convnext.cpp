#include "models/convnext.h"

#include <array>

#include "models/network_declaration.h"
#include "nn/network/layers.h"

namespace composer {
namespace {

constexpr double layer_norm_eps = 1e-6;

struct ConvNeXtSize {
  std::array<int64_t, 4> channels, blocks;
};

constexpr std::pair<std::string_view, ConvNeXtSize> convnext_sizes[]{
    {"convnext_tiny", {{96, 192, 384, 768}, {3, 3, 9, 3}}},
    {"convnext_small", {{96, 192, 384, 768}, {3, 3, 27, 3}}},
    {"convnext_base", {{128, 256, 512, 1024}, {3, 3, 27, 3}}},
    {"convnext_large", {{192, 384, 768, 1536}, {3, 3, 27, 3}}}};

/// 7x7 depthwise convolution, norm, and two linear layers of each pixel; "layer_scale" multiplies
/// the channels of the result before x is added.
class ConvNeXtBlock final : public ResidualBlock {
 public:
  ConvNeXtBlock(int64_t channels, double scale)
      : block_(add<Sequential>(
            "block",
            std::vector<std::shared_ptr<Layer>>{
                std::make_shared<Conv2d>(Conv2dOptions{.in_channels = channels,
                                                       .out_channels = channels,
                                                       .kernel = {7, 7},
                                                       .padding = {3, 3},
                                                       .groups = channels}),
                std::make_shared<OperationLayer>("ToNhwc", op::to_nhwc),
                std::make_shared<LayerNorm>(channels, layer_norm_eps),
                std::make_shared<Linear>(channels, 4 * channels), std::make_shared<Gelu>(),
                std::make_shared<Linear>(4 * channels, channels),
                std::make_shared<OperationLayer>("ToNchw", op::to_nchw)})),
        layer_scale_(register_parameter("layer_scale", at::full({channels, 1, 1}, scale))) {}

  at::Tensor forward(const at::Tensor& input) override { return op::add(residual(input), input); }
  at::Tensor residual(const at::Tensor& input) override {
    return op::multiply(block_(input), layer_scale_);
  }
  at::Tensor branch(const at::Tensor& input) override { return input; }
  Slot& last() override { return block_; }
  at::Tensor shortcut(const at::Tensor& input) override { return input; }
  Activation activation() const override { return Activation::none; }
  std::string describe() const override {
    return "ConvNeXtBlock(" + std::to_string(layer_scale_.size(0)) + ")";
  }

 private:
  Slot& block_;
  at::Tensor layer_scale_;
};

std::shared_ptr<Layer> patches(int64_t in_channels, int64_t out_channels, int64_t size) {
  return std::make_shared<Conv2d>(Conv2dOptions{.in_channels = in_channels,
                                                .out_channels = out_channels,
                                                .kernel = {size, size},
                                                .stride = {size, size}});
}

/// Weights from N(0, 0.02^2) within two units, as PyTorch's trunc_normal_ draws it; biases 0.
template <class T>
void truncated_normal(T& layer) {
  constexpr double deviation = 0.02, bound = 2;
  const double share = std::erf(bound / deviation / std::sqrt(2.0));
  const double inside = std::min(share, 1 - std::exp2(-24));  // erfinv(1) is infinite
  layer.weight.uniform_(-share, share)
      .clamp_(-inside, inside)
      .erfinv_()
      .mul_(deviation * std::sqrt(2.0))
      .clamp_(-bound, bound);
  layer.bias.zero_();
}

}  // namespace

ConvNeXt::ConvNeXt(const Params& params)
    : NamedNetwork(params.model_name, params.num_classes, /*stride=*/32) {
  const auto& [channels, blocks] = size_of(convnext_sizes, params.model_name);

  std::vector<std::shared_ptr<Layer>> features;
  for (size_t stage = 0; stage < channels.size(); ++stage) {
    if (stage == 0)
      features.push_back(std::make_shared<Sequential>(std::vector<std::shared_ptr<Layer>>{
          patches(3, channels[0], 4), std::make_shared<LayerNorm2d>(channels[0], layer_norm_eps)}));
    else
      features.push_back(std::make_shared<Sequential>(std::vector<std::shared_ptr<Layer>>{
          std::make_shared<LayerNorm2d>(channels[stage - 1], layer_norm_eps),
          patches(channels[stage - 1], channels[stage], 2)}));
    std::vector<std::shared_ptr<Layer>> layers;
    for (int64_t i = 0; i < blocks[stage]; ++i)
      layers.push_back(std::make_shared<ConvNeXtBlock>(channels[stage], params.layer_scale));
    features.push_back(std::make_shared<Sequential>(std::move(layers)));
  }
  add<Sequential>("features", std::move(features));
  add<AdaptiveAvgPool2d>("avgpool");
  add<Sequential>("classifier",
                  std::vector<Sequential::Named>{
                      {"0", std::make_shared<LayerNorm>(channels.back(), layer_norm_eps)},
                      {"2", std::make_shared<Linear>(channels.back(), params.num_classes)}});

  initialize(truncated_normal<Conv2d>, truncated_normal<Linear>, params.initializers);
}

std::optional<LibraryNames> ConvNeXt::names_in(const std::string& library) const {
  LibraryNames names;
  if (library != "timm") return names;
  const auto& [channels, blocks] = size_of(convnext_sizes, describe());
  names.paths = {
      {"features.0", "stem"}, {"classifier.0", "head.norm"}, {"classifier.2", "head.fc"}};
  for (size_t stage = 0; stage < channels.size(); ++stage) {
    const auto theirs = "stages." + std::to_string(stage);
    if (stage > 0) names.paths["features." + std::to_string(2 * stage)] = theirs + ".downsample";
    for (int64_t i = 0; i < blocks[stage]; ++i) {
      const auto ours = "features." + std::to_string(2 * stage + 1) + "." + std::to_string(i);
      const auto block = theirs + ".blocks." + std::to_string(i);
      names.paths[ours + ".layer_scale"] = block + ".gamma";
      names.shapes[ours + ".layer_scale"] = {channels[stage]};
      names.paths[ours + ".block.0"] = block + ".conv_dw";
      names.paths[ours + ".block.2"] = block + ".norm";
      names.paths[ours + ".block.3"] = block + ".mlp.fc1";
      names.paths[ours + ".block.5"] = block + ".mlp.fc2";
    }
  }
  return names;
}

NetworkDeclaration convnext_network() {
  return declare_network<ConvNeXt>("convnext", "ConvNeXt, tiny to large", {224, 224},
                                   by_model_name(convnext_sizes));
}

}  // namespace composer

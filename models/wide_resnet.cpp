#include "models/wide_resnet.h"

#include "models/network_declaration.h"
#include "models/residual_blocks.h"

namespace composer {
namespace {

/// x + conv2(relu(bn2(conv1(relu(bn1(x)))))).
class PreActivationBlock final : public ResidualBlock {
 public:
  explicit PreActivationBlock(int64_t channels)
      : channels_(channels),
        bn1_(add("bn1", make_norm(Norm::batch, channels))),
        conv1_(add("conv1", conv(channels, channels, 3))),
        bn2_(add("bn2", make_norm(Norm::batch, channels))),
        conv2_(add("conv2", conv(channels, channels, 3))) {}

  at::Tensor branch(const at::Tensor& input) override {
    const auto inner = conv1_(bn1_(input, {}, Activation::relu));
    return bn2_(inner, {}, Activation::relu);
  }
  Slot& last() override { return conv2_; }
  at::Tensor shortcut(const at::Tensor& input) override { return input; }
  Activation activation() const override { return Activation::none; }
  bool by_rows() const override { return true; }
  std::string describe() const override {
    return block_text("PreActivationBlock", {channels_, channels_}, 1);
  }

 private:
  int64_t channels_;
  Slot &bn1_, &conv1_, &bn2_, &conv2_;
};

/// Like PreActivationBlock, but the shortcut is a convolution of relu(bn1(x)): not a residual
/// block, so methods may not leave it out.
class ProjectingPreActivationBlock final : public Block {
 public:
  ProjectingPreActivationBlock(int64_t in_channels, int64_t out_channels, int64_t stride)
      : text_(block_text("PreActivationBlock", {in_channels, out_channels}, stride)),
        bn1_(add("bn1", make_norm(Norm::batch, in_channels))),
        conv1_(add("conv1", conv(in_channels, out_channels, 3, stride))),
        bn2_(add("bn2", make_norm(Norm::batch, out_channels))),
        conv2_(add("conv2", conv(out_channels, out_channels, 3))),
        shortcut_(add("convShortcut", conv(in_channels, out_channels, 1, stride))) {}

  at::Tensor forward(const at::Tensor& input) override {
    const auto active = bn1_(input, {}, Activation::relu);
    const auto inner = bn2_(conv1_(active), {}, Activation::relu);
    return conv2_(inner, shortcut_(active), Activation::none);
  }
  bool by_rows() const override { return true; }
  std::string describe() const override { return text_; }

 private:
  std::string text_;
  Slot &bn1_, &conv1_, &bn2_, &conv2_, &shortcut_;
};

}  // namespace

WideResNet::WideResNet(const Params& params)
    : NamedNetwork(
          "wide_resnet_" + std::to_string(params.depth) + "_" + std::to_string(params.width),
          params.num_classes, /*stride=*/4) {
  if (const auto problem = params.check(); !problem.empty()) throw UserError(problem);
  int64_t channels = 16;
  add("conv1", conv(3, channels, 3));
  for (int64_t stage = 0; stage < 3; ++stage) {
    const int64_t width = (int64_t{16} << stage) * params.width;
    std::vector<std::shared_ptr<Layer>> blocks;
    for (int64_t i = 0; i < (params.depth - 4) / 6; ++i) {
      const int64_t stride = stage > 0 && i == 0 ? 2 : 1;
      if (stride == 1 && channels == width)
        blocks.push_back(std::make_shared<PreActivationBlock>(width));
      else
        blocks.push_back(std::make_shared<ProjectingPreActivationBlock>(channels, width, stride));
      channels = width;
    }
    add<Sequential>(
        "block" + std::to_string(stage + 1),
        std::vector<Sequential::Named>{{"layer", std::make_shared<Sequential>(std::move(blocks))}});
  }
  add("bn1", make_norm(Norm::batch, channels)).then(Activation::relu);
  add<AdaptiveAvgPool2d>("avgpool");
  add<Linear>("fc", channels, params.num_classes);

  initialize(
      kaiming_normal_fan_out, [](Linear& linear) { linear.bias.zero_(); }, params.initializers);
}

NetworkDeclaration wide_resnet_network() {
  return declare_network<WideResNet>("wide_resnet", "wide residual networks for small images",
                                     {32, 32},
                                     {{"wide_resnet_28_10", {{"depth", "28"}, {"width", "10"}}}});
}

}  // namespace composer

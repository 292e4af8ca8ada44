#include "models/inverted_residual.h"

#include "models/residual_blocks.h"

namespace composer {
namespace {

std::shared_ptr<Layer> activation_layer(Nonlinearity nonlinearity) {
  if (nonlinearity == Nonlinearity::silu) return std::make_shared<Silu>();
  return std::make_shared<Hardswish>();
}

/// Gates each channel by the means of all channels (Hu et al. 2018, arXiv:1709.01507): "fc1" and
/// "fc2" are 1x1 convolutions of the means.
class SqueezeExcitation final : public Block, public ChannelGates {
 public:
  SqueezeExcitation(int64_t channels, int64_t squeezed, bool hard)
      : fc1_(add<Conv2d>(
            "fc1",
            Conv2dOptions{.in_channels = channels, .out_channels = squeezed, .kernel = {1, 1}})),
        fc2_(add<Conv2d>(
            "fc2",
            Conv2dOptions{.in_channels = squeezed, .out_channels = channels, .kernel = {1, 1}})),
        activation_(hard ? add<ReLU>("activation", /*in_place=*/true) : add<Silu>("activation")),
        gate_(hard ? add<Hardsigmoid>("scale_activation")
                   : add<OperationLayer>("scale_activation", "Sigmoid", op::sigmoid)) {}

  at::Tensor forward(const at::Tensor& input) override {
    const auto means = op::adaptive_avg_pool2d(input, {{1, 1}});
    return op::multiply(input, gate_(fc2_(activation_(fc1_(means)))));
  }
  std::string describe() const override { return "SqueezeExcitation"; }

 private:
  Slot &fc1_, &fc2_, &activation_, &gate_;
};

std::shared_ptr<Layer> branch_of(const InvertedResidualOptions& o) {
  std::vector<std::shared_ptr<Layer>> layers;
  const auto add = [&](ConvNormOptions options) {
    options.eps = o.eps, options.momentum = o.momentum;
    layers.push_back(conv_norm(options));
  };
  if (o.expanded != o.in_channels)
    add({.in_channels = o.in_channels, .out_channels = o.expanded, .nonlinearity = o.nonlinearity});
  add({.in_channels = o.expanded,
       .out_channels = o.expanded,
       .kernel = o.kernel,
       .stride = o.stride,
       .groups = o.expanded,
       .nonlinearity = o.nonlinearity});
  if (o.squeezed > 0)
    layers.push_back(std::make_shared<SqueezeExcitation>(o.expanded, o.squeezed, o.hard_gate));
  add({.in_channels = o.expanded, .out_channels = o.out_channels});
  return std::make_shared<Sequential>(std::move(layers));
}

std::string text_of(const InvertedResidualOptions& o) {
  return block_text("InvertedResidual", {o.in_channels, o.expanded, o.out_channels}, o.stride);
}

class InvertedResidual final : public ResidualBlock {
 public:
  explicit InvertedResidual(const InvertedResidualOptions& options)
      : options_(options), block_(add("block", branch_of(options))) {}

  at::Tensor branch(const at::Tensor& input) override { return input; }
  Slot& last() override { return block_; }
  at::Tensor shortcut(const at::Tensor& input) override { return input; }
  Activation activation() const override { return Activation::none; }
  std::string describe() const override { return text_of(options_); }

 private:
  InvertedResidualOptions options_;
  Slot& block_;
};

/// The branch without a shortcut, for blocks whose sizes change.
class InvertedBlock final : public Block {
 public:
  explicit InvertedBlock(const InvertedResidualOptions& options) : options_(options) {
    add("block", branch_of(options));
  }

  bool adds_depth() const override { return true; }
  std::string describe() const override { return text_of(options_); }

 private:
  InvertedResidualOptions options_;
};

}  // namespace

std::shared_ptr<Layer> conv_norm(const ConvNormOptions& o) {
  std::vector<std::shared_ptr<Layer>> layers{
      conv(o.in_channels, o.out_channels, o.kernel, o.stride, o.groups),
      std::make_shared<BatchNorm2d>(o.out_channels, o.eps, o.momentum)};
  const bool fused = o.nonlinearity == Nonlinearity::relu;
  if (!fused && o.nonlinearity != Nonlinearity::none)
    layers.push_back(activation_layer(o.nonlinearity));
  auto row = std::make_shared<Sequential>(std::move(layers));
  if (fused) row->slots()[1].then(Activation::relu);
  return row;
}

std::shared_ptr<Layer> inverted_residual(const InvertedResidualOptions& options) {
  if (options.stride == 1 && options.in_channels == options.out_channels)
    return std::make_shared<InvertedResidual>(options);
  return std::make_shared<InvertedBlock>(options);
}

void add_timm_block(LibraryNames& names, const std::string& ours, const std::string& theirs,
                    bool expands, bool gated) {
  int64_t index = 0;
  const auto next = [&] { return ours + ".block." + std::to_string(index++); };
  const auto add = [&](const char* convolution, const char* norm) {
    const auto layers = next();
    names.paths[layers + ".0"] = theirs + "." + convolution;
    names.paths[layers + ".1"] = theirs + "." + norm;
  };
  if (expands) add("conv_pw", "bn1");
  add("conv_dw", expands ? "bn2" : "bn1");
  if (gated) {
    const auto gates = next();
    names.paths[gates + ".fc1"] = theirs + ".se.conv_reduce";
    names.paths[gates + ".fc2"] = theirs + ".se.conv_expand";
  }
  if (expands)
    add("conv_pwl", "bn3");
  else
    add("conv_pw", "bn2");
}

int64_t multiple_of_8(double channels) {
  const auto nearest = std::max<int64_t>(8, static_cast<int64_t>(channels + 4) / 8 * 8);
  return static_cast<double>(nearest) < 0.9 * channels ? nearest + 8 : nearest;
}

}  // namespace composer

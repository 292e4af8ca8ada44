#include "models/efficientnet.h"

#include <array>

#include "models/inverted_residual.h"
#include "models/network_declaration.h"

namespace composer {
namespace {

/// Factors of b0's width and depth.
struct Scale {
  double width, depth;
};

constexpr std::pair<std::string_view, Scale> scales[]{{"efficientnet_b0", {1.0, 1.0}},
                                                      {"efficientnet_b1", {1.0, 1.1}},
                                                      {"efficientnet_b2", {1.1, 1.2}},
                                                      {"efficientnet_b3", {1.2, 1.4}},
                                                      {"efficientnet_b4", {1.4, 1.8}}};

struct Stage {
  int64_t expansion, kernel, stride, out_channels, blocks;  ///< b0's numbers
};

constexpr std::array<Stage, 7> stages{{{1, 3, 1, 16, 1},
                                       {6, 3, 2, 24, 2},
                                       {6, 5, 2, 40, 2},
                                       {6, 3, 2, 80, 3},
                                       {6, 5, 1, 112, 3},
                                       {6, 5, 2, 192, 4},
                                       {6, 3, 1, 320, 1}}};

int64_t blocks_of(const Stage& stage, double depth) {
  return static_cast<int64_t>(std::ceil(static_cast<double>(stage.blocks) * depth));
}

/// Weights ~ U(-1 / sqrt(out), 1 / sqrt(out)), biases 0.
void uniform_by_outputs(Linear& linear) {
  const double bound = 1 / std::sqrt(static_cast<double>(linear.weight.size(0)));
  linear.weight.uniform_(-bound, bound);
  linear.bias.zero_();
}

}  // namespace

EfficientNet::EfficientNet(const Params& params)
    : NamedNetwork(params.model_name, params.num_classes, /*stride=*/32) {
  const auto [width, depth] = size_of(scales, params.model_name);
  const auto scaled = [&, width = width](int64_t channels) {
    return multiple_of_8(static_cast<double>(channels) * width);
  };

  int64_t channels = scaled(32);
  std::vector<std::shared_ptr<Layer>> features{conv_norm({.in_channels = 3,
                                                          .out_channels = channels,
                                                          .kernel = 3,
                                                          .stride = 2,
                                                          .nonlinearity = Nonlinearity::silu})};
  for (const auto& stage : stages) {
    const int64_t blocks = blocks_of(stage, depth);
    std::vector<std::shared_ptr<Layer>> layers;
    for (int64_t i = 0; i < blocks; ++i) {
      const int64_t expanded = multiple_of_8(static_cast<double>(channels * stage.expansion));
      layers.push_back(inverted_residual({.in_channels = channels,
                                          .expanded = expanded,
                                          .out_channels = scaled(stage.out_channels),
                                          .kernel = stage.kernel,
                                          .stride = i == 0 ? stage.stride : 1,
                                          .squeezed = std::max<int64_t>(1, channels / 4),
                                          .nonlinearity = Nonlinearity::silu}));
      channels = scaled(stage.out_channels);
    }
    features.push_back(std::make_shared<Sequential>(std::move(layers)));
  }
  features.push_back(conv_norm(
      {.in_channels = channels, .out_channels = 4 * channels, .nonlinearity = Nonlinearity::silu}));
  add<Sequential>("features", std::move(features));
  add<AdaptiveAvgPool2d>("avgpool");
  add<Sequential>("classifier",
                  std::vector<Sequential::Named>{
                      {"1", std::make_shared<Linear>(4 * channels, params.num_classes)}});

  initialize(kaiming_normal_fan_out, uniform_by_outputs, params.initializers);
}

std::optional<LibraryNames> EfficientNet::names_in(const std::string& library) const {
  LibraryNames names;
  if (library != "timm") return names;
  names.paths = {{"features.0.0", "conv_stem"},
                 {"features.0.1", "bn1"},
                 {"features.8.0", "conv_head"},
                 {"features.8.1", "bn2"},
                 {"classifier.1", "classifier"}};
  const double depth = size_of(scales, describe()).depth;
  for (size_t stage = 0; stage < stages.size(); ++stage)
    for (int64_t i = 0; i < blocks_of(stages[stage], depth); ++i)
      add_timm_block(names, "features." + std::to_string(stage + 1) + "." + std::to_string(i),
                     "blocks." + std::to_string(stage) + "." + std::to_string(i),
                     /*expands=*/stages[stage].expansion > 1, /*gated=*/true);
  return names;
}

NetworkDeclaration efficientnet_network() {
  return declare_network<EfficientNet>("efficientnet", "EfficientNet, b0 to b4", {224, 224},
                                       by_model_name(scales));
}

}  // namespace composer

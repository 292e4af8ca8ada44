#include "models/efficientnet.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "base/error.h"
#include "models/initializers.h"
#include "models/inverted_residual.h"
#include "models/network_declaration.h"

namespace composer {
namespace {

/// How much wider and deeper than b0.
struct Scale {
  double width, depth;
};

const std::map<std::string, Scale>& scales() {
  static const std::map<std::string, Scale> all{{"efficientnet_b0", {1.0, 1.0}},
                                                {"efficientnet_b1", {1.0, 1.1}},
                                                {"efficientnet_b2", {1.1, 1.2}},
                                                {"efficientnet_b3", {1.2, 1.4}},
                                                {"efficientnet_b4", {1.4, 1.8}}};
  return all;
}

struct Stage {
  int64_t expansion, kernel, stride, out_channels, blocks;  ///< of b0
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

// torchvision's: convolutions ~ N(0, 2 / fan_out), linear layers ~ U(-1 / sqrt(out), 1 /
// sqrt(out)).
void initialize_efficientnet(torch::nn::Module& module) {
  if (auto* conv = dynamic_cast<Conv2d*>(&module)) {
    kaiming_normal_fan_out(*conv);
  } else if (auto* linear = dynamic_cast<Linear*>(&module)) {
    const double bound = 1 / std::sqrt(static_cast<double>(linear->weight.size(0)));
    linear->weight.uniform_(-bound, bound);
    linear->bias.zero_();
  }
}

}  // namespace

EfficientNet::EfficientNet(const Params& params) : params_(params) {
  const auto found = scales().find(params.model_name);
  if (found == scales().end())
    throw UserError("model_name: no network '" + params.model_name + "'");
  const auto [width, depth] = found->second;
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

  {
    const at::NoGradGuard no_grad;
    apply(initialize_efficientnet);
  }
  apply_initializers(*this, params.initializers);
}

std::optional<LibraryNames> EfficientNet::names_in(const std::string& library) const {
  LibraryNames names;
  if (library != "timm") return names;
  names.paths = {{"features.0.0", "conv_stem"},
                 {"features.0.1", "bn1"},
                 {"features.8.0", "conv_head"},
                 {"features.8.1", "bn2"},
                 {"classifier.1", "classifier"}};
  const double depth = scales().at(params_.model_name).depth;
  for (size_t stage = 0; stage < stages.size(); ++stage)
    for (int64_t i = 0; i < blocks_of(stages[stage], depth); ++i)
      add_timm_block(names, "features." + std::to_string(stage + 1) + "." + std::to_string(i),
                     "blocks." + std::to_string(stage) + "." + std::to_string(i),
                     /*expands=*/stages[stage].expansion > 1, /*gated=*/true);
  return names;
}

NetworkDeclaration efficientnet_network() {
  return declare_network<EfficientNet>(
      "efficientnet", "EfficientNet, b0 to b4", {224, 224},
      by_model_name({"efficientnet_b0", "efficientnet_b1", "efficientnet_b2", "efficientnet_b3",
                     "efficientnet_b4"}));
}

}  // namespace composer

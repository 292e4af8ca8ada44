#include "models/mobilenet_v3.h"

#include <span>

#include "models/inverted_residual.h"
#include "models/network_declaration.h"

namespace composer {
namespace {

constexpr double norm_eps = 1e-3, norm_momentum = 1e-2;

struct MobileBlock {
  int64_t kernel, expanded, out_channels;
  bool gated, hardswish;
  int64_t stride;
};

constexpr MobileBlock large_blocks[]{
    {3, 16, 16, false, false, 1}, {3, 64, 24, false, false, 2}, {3, 72, 24, false, false, 1},
    {5, 72, 40, true, false, 2},  {5, 120, 40, true, false, 1}, {5, 120, 40, true, false, 1},
    {3, 240, 80, false, true, 2}, {3, 200, 80, false, true, 1}, {3, 184, 80, false, true, 1},
    {3, 184, 80, false, true, 1}, {3, 480, 112, true, true, 1}, {3, 672, 112, true, true, 1},
    {5, 672, 160, true, true, 2}, {5, 960, 160, true, true, 1}, {5, 960, 160, true, true, 1},
};

constexpr MobileBlock small_blocks[]{
    {3, 16, 16, true, false, 2}, {3, 72, 24, false, false, 2}, {3, 88, 24, false, false, 1},
    {5, 96, 40, true, true, 2},  {5, 240, 40, true, true, 1},  {5, 240, 40, true, true, 1},
    {5, 120, 48, true, true, 1}, {5, 144, 48, true, true, 1},  {5, 288, 96, true, true, 2},
    {5, 576, 96, true, true, 1}, {5, 576, 96, true, true, 1},
};

struct MobileSize {
  std::span<const MobileBlock> blocks;
  int64_t head;  ///< features in front of the last layer
};

constexpr std::pair<std::string_view, MobileSize> mobile_sizes[]{
    {"mobilenet_v3_large", {large_blocks, 1280}},
    {"mobilenet_v3_small", {small_blocks, 1024}},
};

}  // namespace

MobileNetV3::MobileNetV3(const Params& params)
    : NamedNetwork(params.model_name, params.num_classes, /*stride=*/32) {
  const auto& [blocks, head] = size_of(mobile_sizes, params.model_name);

  int64_t channels = 16;
  std::vector<std::shared_ptr<Layer>> features{conv_norm({.in_channels = 3,
                                                          .out_channels = channels,
                                                          .kernel = 3,
                                                          .stride = 2,
                                                          .nonlinearity = Nonlinearity::hardswish,
                                                          .eps = norm_eps,
                                                          .momentum = norm_momentum})};
  for (const auto& block : blocks) {
    const int64_t squeezed = multiple_of_8(static_cast<double>(block.expanded / 4));
    features.push_back(inverted_residual(
        {.in_channels = channels,
         .expanded = block.expanded,
         .out_channels = block.out_channels,
         .kernel = block.kernel,
         .stride = block.stride,
         .squeezed = block.gated ? squeezed : 0,
         .nonlinearity = block.hardswish ? Nonlinearity::hardswish : Nonlinearity::relu,
         .hard_gate = true,
         .eps = norm_eps,
         .momentum = norm_momentum}));
    channels = block.out_channels;
  }
  features.push_back(conv_norm({.in_channels = channels,
                                .out_channels = 6 * channels,
                                .nonlinearity = Nonlinearity::hardswish,
                                .eps = norm_eps,
                                .momentum = norm_momentum}));
  add<Sequential>("features", std::move(features));
  add<AdaptiveAvgPool2d>("avgpool");
  add<Sequential>("classifier", std::vector<Sequential::Named>{
                                    {"0", std::make_shared<Linear>(6 * channels, head)},
                                    {"1", std::make_shared<Hardswish>()},
                                    {"3", std::make_shared<Linear>(head, params.num_classes)}});

  initialize(kaiming_normal_fan_out, narrow_normal, params.initializers);
}

/// A stage of timm's ends where the number of channels changes.
std::optional<LibraryNames> MobileNetV3::names_in(const std::string& library) const {
  LibraryNames names;
  if (library != "timm") return names;
  const auto& [blocks, head] = size_of(mobile_sizes, describe());
  names.paths = {{"features.0.0", "conv_stem"},
                 {"features.0.1", "bn1"},
                 {"classifier.0", "conv_head"},
                 {"classifier.3", "classifier"}};
  int64_t channels = 16, number = 1, stage = 0, in_stage = 0;
  for (const auto& block : blocks) {
    if (block.out_channels != channels) ++stage, in_stage = 0;
    add_timm_block(names, "features." + std::to_string(number++),
                   "blocks." + std::to_string(stage) + "." + std::to_string(in_stage++),
                   /*expands=*/block.expanded != channels, block.gated);
    channels = block.out_channels;
  }
  const auto last = "features." + std::to_string(number) + ".";
  const auto theirs = "blocks." + std::to_string(stage + 1) + ".0.";
  names.paths[last + "0"] = theirs + "conv", names.paths[last + "1"] = theirs + "bn1";
  names.shapes["classifier.0.weight"] = {head, 6 * channels, 1, 1};
  names.difference = std::string(describe() == "mobilenet_v3_large" ? "mobilenetv3_large_100"
                                                                    : "mobilenetv3_small_100") +
                     " has norms with eps 1e-5; made with bn_eps=1e-3 it computes the same";
  return names;
}

NetworkDeclaration mobilenet_v3_network() {
  return declare_network<MobileNetV3>("mobilenet_v3", "MobileNetV3, large and small", {224, 224},
                                      by_model_name(mobile_sizes));
}

}  // namespace composer

#include "models/resnet.h"

#include <array>

#include "models/network_declaration.h"
#include "models/residual_blocks.h"
#include "nn/network/loss.h"

namespace composer {
namespace {

struct Depth {
  bool bottleneck;
  std::array<int64_t, 4> blocks;
};

constexpr std::pair<std::string_view, Depth> depths[]{
    {"resnet18", {false, {2, 2, 2, 2}}},  {"resnet34", {false, {3, 4, 6, 3}}},
    {"resnet50", {true, {3, 4, 6, 3}}},   {"resnet101", {true, {3, 4, 23, 3}}},
    {"resnet152", {true, {3, 8, 36, 3}}},
};

std::shared_ptr<Layer> make_block(const ResidualOptions& options, bool bottleneck,
                                  const ResNet::Params& params) {
  if (!bottleneck) return std::make_shared<BasicBlock>(options);
  return std::make_shared<Bottleneck>(options, params.groups, params.width_per_group);
}

/// The layers have timm's names; the activations "2" and "5" are computed with the norms.
std::shared_ptr<Layer> deep_stem(Norm norm) {
  auto stem =
      std::make_shared<Sequential>(std::vector<Sequential::Named>{{"0", conv(3, 32, 3, 2)},
                                                                  {"1", make_norm(norm, 32)},
                                                                  {"3", conv(32, 32, 3)},
                                                                  {"4", make_norm(norm, 32)},
                                                                  {"6", conv(32, 64, 3)}});
  stem->slots()[1].then(Activation::relu);
  stem->slots()[3].then(Activation::relu);
  return stem;
}

}  // namespace

std::string ResNet::Params::check() const {
  if (pretrained) return "pretrained: weights are not downloaded; give load_path their file";
  const bool basic = model_name == "resnet18" || model_name == "resnet34";
  if (basic && (groups != 1 || width_per_group != 64))
    return "groups, width_per_group: " + model_name + " has only 1 and 64; take resnet50 or deeper";
  if (norm == "group_norm" && groups * width_per_group % norm_groups != 0)
    return "norm: group_norm needs groups * width_per_group to be a multiple of " +
           std::to_string(norm_groups);
  return "";
}

ResNet::ResNet(const Params& params)
    : NamedNetwork(params.model_name + (params.variant == "d" ? "d" : ""), params.num_classes,
                   /*stride=*/32),
      params_(params) {
  if (const auto problem = params.check(); !problem.empty()) throw UserError(problem);
  const auto& [bottleneck, blocks] = size_of(depths, params.model_name);

  const auto norm = params.norm == "group_norm" ? Norm::group : Norm::batch;
  const bool variant_d = params.variant == "d";
  add("conv1", variant_d ? deep_stem(norm) : conv(3, 64, 7, 2));
  add("bn1", make_norm(norm, 64)).then(Activation::relu);
  add<MaxPool2d>("maxpool", Pool2dOptions{.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}});
  int64_t channels = 64;
  for (int64_t stage = 0; stage < 4; ++stage) {
    const int64_t width = int64_t{64} << stage;
    std::vector<std::shared_ptr<Layer>> layers;
    for (int64_t i = 0; i < blocks[stage]; ++i) {
      layers.push_back(make_block({channels, width, stage > 0 && i == 0 ? 2 : 1, norm, variant_d},
                                  bottleneck, params));
      channels = width * (bottleneck ? Bottleneck::expansion : BasicBlock::expansion);
    }
    add<Sequential>("layer" + std::to_string(stage + 1), std::move(layers));
  }
  add<AdaptiveAvgPool2d>("avgpool");
  add<Linear>("fc", channels, params.num_classes);

  initialize(
      kaiming_normal_fan_out, [](Linear&) {}, params.initializers);
}

at::Tensor ResNet::loss(const at::Tensor& logits, const Target& target, Over over) {
  return params_.loss_name == "soft_cross_entropy"
             ? soft_cross_entropy(logits, target, over)
             : binary_cross_entropy_with_logits(logits, target, over);
}

std::optional<LibraryNames> ResNet::names_in(const std::string& library) const {
  if (library == "torchvision" && params_.variant == "d") return std::nullopt;
  return LibraryNames{};
}

NetworkDeclaration resnet_network() {
  auto known = by_model_name(depths);
  constexpr std::array<const char*, 4> grouped[]{{"resnext50_32x4d", "resnet50", "32", "4"},
                                                 {"resnext101_32x8d", "resnet101", "32", "8"},
                                                 {"resnext101_64x4d", "resnet101", "64", "4"},
                                                 {"wide_resnet50_2", "resnet50", "1", "128"},
                                                 {"wide_resnet101_2", "resnet101", "1", "128"}};
  for (const auto& [name, depth, groups, width] : grouped)
    known.push_back(
        {name, {{"model_name", depth}, {"groups", groups}, {"width_per_group", width}}});
  for (const auto& [name, depth] : depths)
    known.push_back(
        {std::string(name) + "d", {{"model_name", std::string(name)}, {"variant", "d"}}});
  return declare_network<ResNet>("resnet", "residual networks for ImageNet, depth 18 to 152",
                                 {224, 224}, std::move(known));
}

}  // namespace composer

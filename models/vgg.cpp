#include "models/vgg.h"

#include <array>

#include "models/network_declaration.h"
#include "nn/network/layers.h"

namespace composer {
namespace {

constexpr int64_t vgg_pooled = 7, vgg_hidden = 4096;

/// Convolutions of each stage.
using VggDepth = std::array<int64_t, 5>;

constexpr std::pair<std::string_view, VggDepth> vgg_depths[]{{"vgg11_bn", {1, 1, 2, 2, 2}},
                                                             {"vgg13_bn", {2, 2, 2, 2, 2}},
                                                             {"vgg16_bn", {2, 2, 3, 3, 3}},
                                                             {"vgg19_bn", {2, 2, 4, 4, 4}}};

/// The layers have torchvision's numbers, which count ReLUs as layers.
std::shared_ptr<Layer> vgg_features(const VggDepth& depth) {
  constexpr std::array<int64_t, 5> widths{64, 128, 256, 512, 512};
  std::vector<Sequential::Named> layers;
  int64_t number = 0, channels = 3;
  for (size_t stage = 0; stage < depth.size(); ++stage) {
    for (int64_t i = 0; i < depth[stage]; ++i) {
      layers.emplace_back(std::to_string(number),
                          std::make_shared<Conv2d>(Conv2dOptions{.in_channels = channels,
                                                                 .out_channels = widths[stage],
                                                                 .kernel = {3, 3},
                                                                 .padding = {1, 1}}));
      channels = widths[stage];
      layers.emplace_back(std::to_string(number + 1), std::make_shared<BatchNorm2d>(channels));
      number += 3;
    }
    layers.emplace_back(std::to_string(number++), std::make_shared<MaxPool2d>(Pool2dOptions{
                                                      .kernel = {2, 2}, .stride = {2, 2}}));
  }
  auto features = std::make_shared<Sequential>(std::move(layers));
  for (Slot& slot : features->slots())
    if (dynamic_cast<BatchNorm2d*>(slot.layer().get()) != nullptr) slot.then(Activation::relu);
  return features;
}

}  // namespace

Vgg::Vgg(const Params& params)
    : NamedNetwork(params.model_name, params.num_classes, /*stride=*/32) {
  add("features", vgg_features(size_of(vgg_depths, params.model_name)));
  add<AdaptiveAvgPool2d>("avgpool", vgg_pooled);
  auto head = std::make_shared<Sequential>(std::vector<Sequential::Named>{
      {"0", std::make_shared<Linear>(512 * vgg_pooled * vgg_pooled, vgg_hidden)},
      {"3", std::make_shared<Linear>(vgg_hidden, vgg_hidden)},
      {"6", std::make_shared<Linear>(vgg_hidden, params.num_classes)}});
  head->slots()[0].then(Activation::relu);
  head->slots()[1].then(Activation::relu);
  add("classifier", std::static_pointer_cast<Layer>(std::move(head)));

  initialize(kaiming_normal_fan_out, narrow_normal, params.initializers);
}

/// timm's hidden layers are convolutions: larger images pass them before they are pooled.
std::optional<LibraryNames> Vgg::names_in(const std::string& library) const {
  if (library != "timm") return LibraryNames{};
  return LibraryNames{.paths = {{"classifier.0", "pre_logits.fc1"},
                                {"classifier.3", "pre_logits.fc2"},
                                {"classifier.6", "head.fc"}},
                      .shapes = {{"classifier.0.weight", {vgg_hidden, 512, vgg_pooled, vgg_pooled}},
                                 {"classifier.3.weight", {vgg_hidden, vgg_hidden, 1, 1}}},
                      .differs_from = (vgg_pooled + 1) * stride()};
}

NetworkDeclaration vgg_network() {
  return declare_network<Vgg>("vgg", "VGG with batch norm, depth 11 to 19", {224, 224},
                              by_model_name(vgg_depths));
}

}  // namespace composer

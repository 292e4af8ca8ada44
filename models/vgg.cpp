#include "models/vgg.h"

#include <ATen/core/grad_mode.h>

#include <array>
#include <map>

#include "base/error.h"
#include "models/initializers.h"
#include "models/network_declaration.h"
#include "nn/network/layers.h"

namespace composer {
namespace {

constexpr int64_t vgg_pooled = 7, vgg_hidden = 4096;

/// Convolutions of each stage.
using VggDepth = std::array<int64_t, 5>;

const std::map<std::string, VggDepth>& vgg_depths() {
  static const std::map<std::string, VggDepth> all{{"vgg11_bn", {1, 1, 2, 2, 2}},
                                                   {"vgg13_bn", {2, 2, 2, 2, 2}},
                                                   {"vgg16_bn", {2, 2, 3, 3, 3}},
                                                   {"vgg19_bn", {2, 2, 4, 4, 4}}};
  return all;
}

/// torchvision's numbers, in which each ReLU has one.
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

// torchvision's: convolutions ~ N(0, 2 / fan_out), linear layers ~ N(0, 0.01^2).
void initialize_vgg(torch::nn::Module& module) {
  if (auto* conv = dynamic_cast<Conv2d*>(&module)) {
    kaiming_normal_fan_out(*conv);
  } else if (auto* linear = dynamic_cast<Linear*>(&module)) {
    linear->weight.normal_(0, 0.01);
    linear->bias.zero_();
  }
}

}  // namespace

Vgg::Vgg(const Params& params) : params_(params) {
  const auto depth = vgg_depths().find(params.model_name);
  if (depth == vgg_depths().end())
    throw UserError("model_name: no network '" + params.model_name + "'");
  add("features", vgg_features(depth->second));
  add<AdaptiveAvgPool2d>("avgpool", vgg_pooled);
  auto head = std::make_shared<Sequential>(std::vector<Sequential::Named>{
      {"0", std::make_shared<Linear>(512 * vgg_pooled * vgg_pooled, vgg_hidden)},
      {"3", std::make_shared<Linear>(vgg_hidden, vgg_hidden)},
      {"6", std::make_shared<Linear>(vgg_hidden, params.num_classes)}});
  head->slots()[0].then(Activation::relu);
  head->slots()[1].then(Activation::relu);
  add("classifier", std::static_pointer_cast<Layer>(std::move(head)));

  {
    const at::NoGradGuard no_grad;
    apply(initialize_vgg);
  }
  apply_initializers(*this, params.initializers);
}

/// timm's hidden layers are convolutions, which larger images than these pass before they are
/// pooled.
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
                              by_model_name({"vgg11_bn", "vgg13_bn", "vgg16_bn", "vgg19_bn"}));
}

}  // namespace composer

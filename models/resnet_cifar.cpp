#include "models/resnet_cifar.h"

#include "models/network_declaration.h"

namespace composer {
namespace {

/// Blocks of each stage; 0 for resnet_9, which has no stages.
constexpr std::pair<std::string_view, int64_t> cifar_blocks[]{{"resnet_9", 0},  {"resnet_20", 3},
                                                              {"resnet_56", 9}, {"resnet9", 0},
                                                              {"resnet20", 3},  {"resnet56", 9}};

}  // namespace

ResNetCifar::ResNetCifar(const Params& params)
    : NamedNetwork(params.model_name, params.num_classes, params.model_name.ends_with('9') ? 8 : 4),
      norm_(params.norm == "group_norm" ? Norm::group : Norm::batch) {
  const int64_t blocks = size_of(cifar_blocks, params.model_name);
  if (blocks == 0)
    add_resnet_9();
  else
    add_stages(blocks);
  apply_initializers(*this, params.initializers);
}

void ResNetCifar::add_stages(int64_t blocks) {
  add("conv1", conv(3, 16, 3));
  add("bn1", make_norm(norm_, 16)).then(Activation::relu);
  int64_t channels = 16;
  for (int64_t stage = 0; stage < 3; ++stage) {
    const int64_t width = int64_t{16} << stage;
    std::vector<std::shared_ptr<Layer>> layers;
    for (int64_t i = 0; i < blocks; ++i) {
      layers.push_back(std::make_shared<BasicBlock>(
          ResidualOptions{channels, width, stage > 0 && i == 0 ? 2 : 1, norm_}));
      channels = width;
    }
    add<Sequential>("layer" + std::to_string(stage + 1), std::move(layers));
  }
  add<AdaptiveAvgPool2d>("avgpool");
  add<Linear>("fc", channels, num_classes());
}

void ResNetCifar::add_resnet_9() {
  add_conv_block("1", 3, 64, /*pooled=*/false);
  add_conv_block("2", 64, 128, /*pooled=*/true);
  add<BasicBlock>("residual2", ResidualOptions{128, 128, 1, norm_});
  add_conv_block("3", 128, 256, /*pooled=*/true);
  add_conv_block("4", 256, 256, /*pooled=*/true);
  add<BasicBlock>("residual4", ResidualOptions{256, 256, 1, norm_});
  add<AdaptiveAvgPool2d>("avgpool");
  add<Linear>("fc", 256, num_classes());
}

void ResNetCifar::add_conv_block(const std::string& index, int64_t in_channels,
                                 int64_t out_channels, bool pooled) {
  add("conv" + index, conv(in_channels, out_channels, 3));
  const auto norm = norm_ == Norm::group ? make_norm(norm_, out_channels)
                                         : std::make_shared<BatchNorm2d>(out_channels, /*eps=*/1e-5,
                                                                         /*momentum=*/0.9);
  add("bn" + index, norm).then(Activation::relu);
  if (pooled) add<MaxPool2d>("pool" + index, Pool2dOptions{.kernel = {2, 2}, .stride = {2, 2}});
}

NetworkDeclaration resnet_cifar_network() {
  return declare_network<ResNetCifar>("resnet_cifar",
                                      "residual networks for small images, depth 9, 20 or 56",
                                      {32, 32}, by_model_name(cifar_blocks));
}

}  // namespace composer

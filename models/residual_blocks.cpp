#include "models/residual_blocks.h"

#include <c10/util/StringUtil.h>

#include "nn/network/layers.h"

namespace composer {

std::shared_ptr<Layer> conv(int64_t in_channels, int64_t out_channels, int64_t kernel,
                            int64_t stride, int64_t groups) {
  return std::make_shared<Conv2d>(Conv2dOptions{.in_channels = in_channels,
                                                .out_channels = out_channels,
                                                .kernel = {kernel, kernel},
                                                .stride = {stride, stride},
                                                .padding = {kernel / 2, kernel / 2},
                                                .groups = groups,
                                                .bias = false});
}

std::string block_text(const std::string& kind, const std::vector<int64_t>& channels,
                       int64_t stride) {
  return kind + "(" + c10::Join(", ", channels) +
         (stride == 1 ? "" : ", stride " + std::to_string(stride)) + ")";
}

std::shared_ptr<Layer> make_norm(Norm norm, int64_t channels) {
  if (norm == Norm::batch) return std::make_shared<BatchNorm2d>(channels);
  return std::make_shared<GroupNorm>(std::min(norm_groups, channels / 2), channels);
}

namespace {

/// The layers have timm's names: "0" the pool, if there is one, "1" the convolution, "2" the norm.
std::shared_ptr<Layer> pooled_projection(const ResidualOptions& options, int64_t out_channels) {
  std::vector<Sequential::Named> layers;
  if (options.stride != 1)
    layers.emplace_back(
        "0", std::make_shared<AvgPool2d>(Pool2dOptions{.kernel = {options.stride, options.stride},
                                                       .stride = {options.stride, options.stride},
                                                       .ceil_mode = true}));
  layers.emplace_back("1", conv(options.in_channels, out_channels, 1));
  layers.emplace_back("2", make_norm(options.norm, out_channels));
  return std::make_shared<Sequential>(std::move(layers));
}

}  // namespace

// The projection is made before the block's own layers, as torchvision does, so that one seed gives
// the same weights.
ProjectedBlock::ProjectedBlock(std::string kind, const ResidualOptions& options,
                               int64_t out_channels)
    : kind_(std::move(kind)), options_(options), out_channels_(out_channels) {
  if (options.stride == 1 && options.in_channels == out_channels) return;
  if (options.pooled_shortcut) {
    projection_ = pooled_projection(options, out_channels);
    return;
  }
  projection_ = std::make_shared<Sequential>(std::vector<std::shared_ptr<Layer>>{
      conv(options.in_channels, out_channels, 1, options.stride),
      make_norm(options.norm, out_channels)});
}

void ProjectedBlock::add_downsample() {
  if (projection_ != nullptr) downsample_ = &add("downsample", std::move(projection_));
}

at::Tensor ProjectedBlock::forward(const at::Tensor& input) {
  if (downsample_ == nullptr) return ResidualBlock::forward(input);
  return last()(branch(input), *downsample_, input, activation());
}

at::Tensor ProjectedBlock::shortcut(const at::Tensor& input) {
  return downsample_ == nullptr ? input : (*downsample_)(input);
}

std::string ProjectedBlock::describe() const {
  return block_text(kind_, {options_.in_channels, out_channels_}, options_.stride);
}

BasicBlock::BasicBlock(const ResidualOptions& options)
    : ProjectedBlock("BasicBlock", options, options.width),
      conv1_(add("conv1", conv(options.in_channels, options.width, 3, options.stride))),
      bn1_(add("bn1", make_norm(options.norm, options.width))),
      conv2_(add("conv2", conv(options.width, options.width, 3))),
      bn2_(add("bn2", make_norm(options.norm, options.width))) {
  add_downsample();
}

at::Tensor BasicBlock::branch(const at::Tensor& input) {
  return conv2_(bn1_(conv1_(input), {}, Activation::relu));
}

Bottleneck::Bottleneck(const ResidualOptions& options, int64_t groups, int64_t width_per_group)
    : ProjectedBlock("Bottleneck", options, options.width * expansion),
      inner_(options.width * width_per_group / 64 * groups),
      conv1_(add("conv1", conv(options.in_channels, inner_, 1))),
      bn1_(add("bn1", make_norm(options.norm, inner_))),
      conv2_(add("conv2", conv(inner_, inner_, 3, options.stride, groups))),
      bn2_(add("bn2", make_norm(options.norm, inner_))),
      conv3_(add("conv3", conv(inner_, options.width * expansion, 1))),
      bn3_(add("bn3", make_norm(options.norm, options.width * expansion))) {
  add_downsample();
}

at::Tensor Bottleneck::branch(const at::Tensor& input) {
  const auto reduced = bn1_(conv1_(input), {}, Activation::relu);
  return conv3_(bn2_(conv2_(reduced), {}, Activation::relu));
}

}  // namespace composer

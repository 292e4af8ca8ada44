#include "nn/network/norm_layers.h"

#include <ATen/autocast_mode.h>

#include <typeinfo>

#include "base/error.h"
#include "nn/network/operations.h"

namespace composer {
namespace {

at::Tensor full_precision(const at::Tensor& input) {
  if (!at::autocast::is_autocast_enabled(input.device().type())) return input;
  return op::converted(input.to(at::kFloat), input);
}

}  // namespace

LayerNorm::LayerNorm(int64_t features, double eps) : features_(features), eps_(eps) {
  weight = register_parameter("weight", at::ones({features}));
  bias = register_parameter("bias", at::zeros({features}));
}

at::Tensor LayerNorm::normalize(const at::Tensor& input) {
  return op::layer_norm(full_precision(input), weight, bias, {features_, eps_});
}

std::string LayerNorm::describe() const { return "LayerNorm(" + std::to_string(features_) + ")"; }

at::Tensor LayerNorm2d::normalize(const at::Tensor& input) {
  return op::to_nchw(LayerNorm::normalize(op::to_nhwc(input)));
}

std::string LayerNorm2d::describe() const {
  return "LayerNorm2d(" + std::to_string(features_) + ")";
}

GroupNorm::GroupNorm(int64_t groups, int64_t channels, double eps)
    : groups_(groups), channels_(channels), eps_(eps) {
  if (groups < 1 || channels % groups != 0)
    throw UserError("group norm: " + std::to_string(channels) + " channels do not make " +
                    std::to_string(groups) + " groups of the same size");
  weight = register_parameter("weight", at::ones({channels}));
  bias = register_parameter("bias", at::zeros({channels}));
}

at::Tensor GroupNorm::normalize(const at::Tensor& input) {
  return op::group_norm(full_precision(input), weight, bias, {groups_, eps_});
}

bool GroupNorm::by_rows() const { return typeid(*this) == typeid(GroupNorm); }

std::string GroupNorm::describe() const {
  return "GroupNorm(" + std::to_string(groups_) + ", " + std::to_string(channels_) + ")";
}

}  // namespace composer

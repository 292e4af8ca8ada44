#include "models/initializers.h"

#include <ATen/core/grad_mode.h>

#include "base/error.h"
#include "base/text.h"
#include "models/named_network.h"
#include "nn/network/layers.h"

namespace composer {
namespace {

using Initializer = void (*)(torch::nn::Module& module);

at::Tensor weight_of(torch::nn::Module& module) {
  if (auto* conv = dynamic_cast<Conv2d*>(&module)) return conv->weight;
  if (auto* linear = dynamic_cast<Linear*>(&module)) return linear->weight;
  return {};
}

double fan_in(const at::Tensor& weight) { return static_cast<double>(weight[0].numel()); }
double fan_out(const at::Tensor& weight) {
  return static_cast<double>(weight.numel() / weight.size(1));
}

void kaiming_normal(torch::nn::Module& module) {
  if (auto weight = weight_of(module); weight.defined())
    weight.normal_(0, std::sqrt(2 / fan_in(weight)));
}

void fill_uniform(at::Tensor weight, double fan) {
  const double bound = std::sqrt(6 / fan);
  weight.uniform_(-bound, bound);
}

void kaiming_uniform(torch::nn::Module& module) {
  if (auto weight = weight_of(module); weight.defined()) fill_uniform(weight, fan_in(weight));
}

void xavier_uniform(torch::nn::Module& module) {
  if (auto weight = weight_of(module); weight.defined())
    fill_uniform(weight, fan_in(weight) + fan_out(weight));
}

void bn_uniform(torch::nn::Module& module) {
  auto* const norm = dynamic_cast<BatchNorm2d*>(&module);
  if (norm == nullptr) return;
  norm->weight.uniform_(0, 1);
  norm->bias.zero_();
}

void bn_ones(torch::nn::Module& module) {
  auto* const norm = dynamic_cast<BatchNorm2d*>(&module);
  if (norm == nullptr) return;
  norm->weight.fill_(1);
  norm->bias.zero_();
}

void linear_log_constant_bias(torch::nn::Module& module) {
  auto* linear = dynamic_cast<Linear*>(&module);
  if (linear == nullptr || !linear->bias.defined()) return;
  linear->bias.fill_(-std::log(static_cast<double>(linear->bias.size(0))));
}

const std::map<std::string, Initializer>& initializers() {
  static const std::map<std::string, Initializer> all{
      {"bn_ones", bn_ones},
      {"bn_uniform", bn_uniform},
      {"kaiming_normal", kaiming_normal},
      {"kaiming_uniform", kaiming_uniform},
      {"linear_log_constant_bias", linear_log_constant_bias},
      {"xavier_uniform", xavier_uniform},
  };
  return all;
}

}  // namespace

std::vector<std::string> initializer_names() {
  std::vector<std::string> names;
  for (const auto& [name, initializer] : initializers()) names.push_back(name);
  return names;
}

void kaiming_normal_fan_out(Conv2d& conv) {
  conv.weight.normal_(0, std::sqrt(2 / fan_out(conv.weight)));
  if (conv.bias.defined()) conv.bias.zero_();
}

void narrow_normal(Linear& linear) {
  linear.weight.normal_(0, 0.01);
  linear.bias.zero_();
}

void NamedNetwork::initialize(void (*conv)(Conv2d&), void (*linear)(Linear&),
                              const std::vector<std::string>& initializers) {
  const at::NoGradGuard no_grad;
  apply([&](torch::nn::Module& module) {
    if (auto* const convolution = dynamic_cast<Conv2d*>(&module)) conv(*convolution);
    if (auto* const matrix = dynamic_cast<Linear*>(&module)) linear(*matrix);
  });
  apply_initializers(*this, initializers);
}

void apply_initializers(torch::nn::Module& model, const std::vector<std::string>& names) {
  const at::NoGradGuard no_grad;
  for (const auto& name : names) {
    const auto found = initializers().find(name);
    if (found == initializers().end())
      throw UserError("initializers: '" + name + "' is not one of " + joined(initializer_names()));
    model.apply(found->second);
  }
}

}  // namespace composer

#include "algorithms/factorize.h"

#include <ATen/core/grad_mode.h>

#include "composer/loop/state.h"

namespace composer {
namespace {

/// Factorizes the weight into both layers and copies the bias, if there is one.
template <class T>
std::shared_ptr<Layer> filled(std::shared_ptr<T> first, std::shared_ptr<T> second,
                              const at::Tensor& weight, const at::Tensor& bias) {
  const at::NoGradGuard no_grad;
  const auto [left, right] = low_rank(weight.detach().flatten(1), first->weight.size(0));
  first->weight.copy_(right.view_as(first->weight));
  second->weight.copy_(left.view_as(second->weight));
  if (bias.defined()) second->bias.copy_(bias);
  auto layer = std::make_shared<Factorized>(std::move(first), std::move(second));
  layer->to(weight.device());
  return layer;
}

std::shared_ptr<Layer> split(const Conv2d& conv, const Factorize::Params& params) {
  const auto& o = conv.options();
  const int64_t rank = inner_width(params.latent_channels, std::min(o.in_channels, o.out_channels));
  const int64_t fan_in = o.in_channels * o.kernel[0] * o.kernel[1];
  const bool fits = params.factorize_convs && o.groups == 1 &&
                    std::min(o.in_channels, o.out_channels) >= params.min_channels &&
                    rank <= largest_useful_rank(fan_in, o.out_channels);
  return fits ? factorized(conv, rank) : nullptr;
}

std::shared_ptr<Layer> split(const Linear& linear, const Factorize::Params& params) {
  const int64_t out = linear.weight.size(0), in = linear.weight.size(1);
  const int64_t rank = inner_width(params.latent_features, std::min(in, out));
  const bool fits = params.factorize_linears && std::min(in, out) >= params.min_features &&
                    rank <= largest_useful_rank(in, out);
  return fits ? factorized(linear, rank) : nullptr;
}

}  // namespace

std::pair<at::Tensor, at::Tensor> low_rank(const at::Tensor& matrix, int64_t rank) {
  const auto [u, s, vh] = at::linalg_svd(matrix, /*full_matrices=*/false);
  const auto root = s.narrow(0, 0, rank).sqrt();
  return {u.narrow(1, 0, rank) * root, root.unsqueeze(1) * vh.narrow(0, 0, rank)};
}

int64_t largest_useful_rank(int64_t in, int64_t out) {
  const double break_even =
      static_cast<double>(in) * static_cast<double>(out) / static_cast<double>(in + out);
  return static_cast<int64_t>(std::ceil(break_even - 1));
}

std::shared_ptr<Layer> factorized(const Conv2d& conv, int64_t rank) {
  auto first = conv.options();
  first.out_channels = rank;
  first.bias = false;
  const Conv2dOptions second{.in_channels = rank,
                             .out_channels = conv.options().out_channels,
                             .kernel = {1, 1},
                             .bias = conv.bias.defined()};
  return filled(std::make_shared<Conv2d>(first), std::make_shared<Conv2d>(second), conv.weight,
                conv.bias);
}

std::shared_ptr<Layer> factorized(const Linear& linear, int64_t rank) {
  return filled(std::make_shared<Linear>(linear.weight.size(1), rank, /*bias=*/false),
                std::make_shared<Linear>(rank, linear.weight.size(0), linear.bias.defined()),
                linear.weight, linear.bias);
}

std::vector<Replacement> apply_factorization(Block& model, const Factorize::Params& params) {
  return replace_some(
      model,
      [&](const std::string&, Layer& layer) -> std::shared_ptr<Layer> {
        if (typeid(layer) == typeid(Conv2d)) return split(static_cast<Conv2d&>(layer), params);
        if (typeid(layer) == typeid(Linear)) return split(static_cast<Linear&>(layer), params);
        return nullptr;
      },
      "algorithms.factorize: the model has no layer that it may split (at least " +
          std::to_string(params.min_channels) + " channels or " +
          std::to_string(params.min_features) +
          " features) and that gets cheaper by it; remove it, or lower "
          "min_channels or min_features, or latent_channels or latent_features");
}

void Factorize::init(State& state) {
  replacements_ = apply_factorization(*state.model, params_);
  log_count(state, "factorize/num_factorized_layers", "factorize: split", "layers");
}

}  // namespace composer

#include "algorithms/parts/replaced_layers.h"

#include <cmath>
#include <limits>

#include "base/random.h"

namespace composer {
namespace {

at::Tensor uniform_by_fan_in(int64_t rows, int64_t columns, Random random) {
  const double bound = 1 / std::sqrt(static_cast<double>(columns));
  auto weight = at::empty({rows, columns}, at::kFloat);
  std::generate_n(weight.data_ptr<float>(), weight.numel(),
                  [&] { return static_cast<float>(random.uniform(-bound, bound)); });
  return weight;
}

constexpr float kLeastStep = std::numeric_limits<float>::epsilon();

/// `values` with the gradient of `of`.
at::Tensor straight_through(const at::Tensor& values, const at::Tensor& of) {
  return of + (values - of).detach();
}

}  // namespace

at::Tensor squeeze_excite(const at::Tensor& input, const at::Tensor& squeeze,
                          const at::Tensor& excite, const Rounder& rounder) {
  const auto hidden =
      op::relu_(op::linear(rounder.input(op::mean(input)), rounder.weight(squeeze)));
  const auto gates = op::sigmoid_(op::linear(rounder.input(hidden), rounder.weight(excite)));
  return op::multiply(input, op::unsqueeze(gates));
}

SqueezeExciteConv::SqueezeExciteConv(std::shared_ptr<Conv2d> conv, int64_t latent_channels,
                                     uint64_t seed, uint64_t index)
    : conv_(std::move(conv)) {
  const int64_t channels = conv_->options().out_channels;
  squeeze = uniform_by_fan_in(latent_channels, channels,
                              Random(seed, "squeeze_excite.squeeze", 0, index));
  excite =
      uniform_by_fan_in(channels, latent_channels, Random(seed, "squeeze_excite.excite", 0, index));
  register_parameters();
}

SqueezeExciteConv::SqueezeExciteConv(std::shared_ptr<Conv2d> conv, const SqueezeExciteConv& gates)
    : squeeze(gates.squeeze), excite(gates.excite), conv_(std::move(conv)) {
  register_parameters();
}

void SqueezeExciteConv::register_parameters() {
  for (const auto& parameter : conv_->named_parameters())
    register_parameter(parameter.key(), parameter.value());
  squeeze = register_parameter("squeeze", squeeze);
  excite = register_parameter("excite", excite);
}

at::Tensor SqueezeExciteConv::forward(const at::Tensor& input) {
  return squeeze_excite(conv_->forward(input), squeeze, excite);
}

void SqueezeExciteConv::train(bool on) {
  Layer::train(on);
  conv_->train(on);
}

std::string SqueezeExciteConv::describe() const {
  return "SqueezeExciteConv: " + conv_->describe() + ", gates by " +
         std::to_string(squeeze.size(0)) + " channels";
}

std::string check_width(const std::string& key, double wanted) {
  const bool whole = wanted == std::floor(wanted) && wanted <= 1e6;
  return wanted < 1 || whole ? ""
                             : key + ": must be a share below 1 or a whole number up to 1000000\n";
}

int64_t inner_width(double wanted, int64_t full) {
  if (wanted < 1) wanted *= static_cast<double>(full);
  return std::max<int64_t>(static_cast<int64_t>(wanted), 1);
}

std::shared_ptr<Conv2d> conv_of(Layer& layer) {
  if (const auto* gated = dynamic_cast<SqueezeExciteConv*>(&layer)) return gated->conv();
  return std::dynamic_pointer_cast<Conv2d>(layer.shared_from_this());
}

Factorized::Factorized(std::shared_ptr<Layer> first, std::shared_ptr<Layer> second)
    : first_(add("0", std::move(first))), second_(add("1", std::move(second))) {}

std::string Factorized::describe() const {
  return "Factorized: " + first()->describe() + ", " + second()->describe();
}

at::Tensor rounded_activations(const at::Tensor& values, int64_t bits) {
  if (values.numel() == 0) return values;
  const auto most = static_cast<float>((int64_t{1} << bits) - 1);
  const auto [smallest, largest] = at::aminmax(values.detach().to(at::kFloat));
  const auto low = smallest.clamp_max(0), high = largest.clamp_min(0);
  const auto scale = ((high - low) / most).clamp_min(kLeastStep);
  const auto zero_point = (-(low / scale).round()).clamp(0, most);
  const auto numbers = values.detach().to(at::kFloat);
  const auto codes = ((numbers / scale).round() + zero_point).clamp(0, most);
  return straight_through(((codes - zero_point) * scale).to(values.scalar_type()), values);
}

at::Tensor rounded_weight(const at::Tensor& weight) {
  const auto numbers = weight.detach().to(at::kFloat);
  std::vector<int64_t> rows(static_cast<size_t>(weight.dim()), 1);
  rows[0] = -1;
  const auto scale = (numbers.flatten(1).abs().amax(1) / 127.5F).clamp_min(kLeastStep).view(rows);
  const auto codes = (numbers * scale.reciprocal()).round().clamp(-128, 127);
  return straight_through((codes * scale).to(weight.scalar_type()), weight);
}

}  // namespace composer

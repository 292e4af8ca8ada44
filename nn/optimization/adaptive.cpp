#include "nn/optimization/adaptive.h"

#include <cmath>
#include <limits>
#include <typeinfo>

#include "nn/optimization/skipped_step.h"

namespace composer {
namespace {

/// The variance of the gradients' size is taken as known above it.
constexpr double known_rho = 5;

/// w -= step_size * m / (sqrt(v) / root + eps).
struct RectifiedStep {
  double step_size, root, eps;
};

RectifiedStep rectified(double lr, double step, const RAdamParams& params) {
  const double beta1 = params.betas[0], beta2 = params.betas[1];
  const double limit = 2 / (1 - beta2) - 1, left = 1 - std::pow(beta2, step);
  const double rho = limit - 2 * step * (1 - left) / left;
  const double step_size = lr / (1 - std::pow(beta1, step)), root = std::sqrt(left);
  if (rho <= known_rho) return {step_size, std::numeric_limits<double>::infinity(), 1};
  const double rectification =
      std::sqrt((rho - 4) * (rho - 2) * limit / ((limit - 4) * (limit - 2) * rho));
  return {step_size * rectification, root, params.eps / root};
}

/// The same of several parameters, step [n]; [n] each, and the inverse of the root.
struct RectifiedSteps {
  at::Tensor step_size, inverse_root, eps;
};

RectifiedSteps rectified(const at::Tensor& lr, const at::Tensor& step, const RAdamParams& params) {
  const double beta1 = params.betas[0], beta2 = params.betas[1], limit = 2 / (1 - beta2) - 1;
  const auto left = 1 - at::pow(beta2, step);
  const auto rho = limit - 2 * step * (1 - left) / left;
  const auto known = rho > known_rho;
  const auto one = at::ones_like(rho);
  const auto square = (rho - 4) * (rho - 2) * limit / ((limit - 4) * (limit - 2) * rho);
  const auto inverse_root = left.rsqrt();
  return {lr / (1 - at::pow(beta1, step)) * at::where(known, square, one).sqrt(),
          at::where(known, inverse_root, at::zeros_like(rho)),
          at::where(known, params.eps * inverse_root, one)};
}

/// d = g + weight_decay * w of each; 0 where found_inf is 1.
std::vector<at::Tensor> decayed(const std::vector<at::Tensor>& gradients,
                                const std::vector<at::Tensor>& weights, double weight_decay,
                                const at::Tensor& found_inf) {
  return zero_if(found_inf, weight_decay == 0 ? gradients
                                              : at::_foreach_add(gradients, weights, weight_decay));
}

}  // namespace

Rmsprop::Rmsprop(const Params& params)
    : Optimizer({.lr = params.lr,
                 .weight_decay = params.weight_decay,
                 .no_decay_norm_bias = params.no_decay_norm_bias,
                 .grouping = params.grouping},
                [&] {
                  std::vector<StateKind> kinds{{"square_avg"}};
                  if (params.centered) kinds.push_back({"grad_avg"});
                  if (params.momentum != 0) kinds.push_back({"momentum_buffer"});
                  return kinds;
                }()),
      params_(params) {}

void Rmsprop::update(Update& update) {
  const auto gradients =
      decayed(update.gradients, update.parameters, update.group.weight_decay, update.found_inf);
  const auto& squares = update.state[0];
  multiply_unless(update.found_inf, squares, params_.alpha);
  at::_foreach_addcmul_(squares, gradients, gradients, 1 - params_.alpha);
  std::vector<at::Tensor> scales;
  if (params_.centered) {
    const auto& means = update.state[1];
    multiply_unless(update.found_inf, means, params_.alpha);
    at::_foreach_add_(means, gradients, 1 - params_.alpha);
    scales = at::_foreach_addcmul(squares, means, means, -1);
    at::_foreach_clamp_min_(scales, 0);
    at::_foreach_sqrt_(scales);
  } else {
    scales = at::_foreach_sqrt(squares);
  }
  at::_foreach_add_(scales, params_.eps);
  auto ways = at::_foreach_div(gradients, scales);
  if (params_.momentum != 0) {
    const auto& kept = update.state.back();
    multiply_unless(update.found_inf, kept, params_.momentum);
    at::_foreach_add_(kept, ways);
    ways = kept;
  }
  const auto lr = zero_if(update.found_inf, update.group.lr);
  at::_foreach_sub_(update.parameters, at::_foreach_mul(ways, lr));
}

bool Rmsprop::in_one_pass(const ParameterGroup&) const { return typeid(*this) == typeid(Rmsprop); }

UpdateRule Rmsprop::next_rule(const ParameterGroup& group, const std::vector<at::Tensor>&, bool) {
  return RmspropRule{.lr = *group.lr.const_data_ptr<float>(),
                     .decay = static_cast<float>(group.weight_decay),
                     .alpha = static_cast<float>(params_.alpha),
                     .square_share = static_cast<float>(1 - params_.alpha),
                     .eps = static_cast<float>(params_.eps),
                     .momentum = static_cast<float>(params_.momentum),
                     .centered = params_.centered};
}

RAdam::RAdam(const Params& params)
    : Optimizer({.lr = params.lr,
                 .weight_decay = params.weight_decay,
                 .no_decay_norm_bias = params.no_decay_norm_bias,
                 .grouping = params.grouping},
                {{"exp_avg"}, {"exp_avg_sq"}, {"step", true}}),
      params_(params) {}

void RAdam::update(Update& update) {
  const bool decoupled = params_.decoupled_weight_decay;
  const double decay = update.group.weight_decay;
  const auto gradients =
      decayed(update.gradients, update.parameters, decoupled ? 0 : decay, update.found_inf);
  const auto &means = update.state[0], &squares = update.state[1];
  const auto steps = count_unless(update.found_inf, update.state[2]);
  multiply_unless(update.found_inf, means, params_.betas[0]);
  at::_foreach_add_(means, gradients, 1 - params_.betas[0]);
  multiply_unless(update.found_inf, squares, params_.betas[1]);
  at::_foreach_addcmul_(squares, gradients, gradients, 1 - params_.betas[1]);

  const auto lr = zero_if(update.found_inf, update.group.lr);
  const auto [step_size, inverse_root, eps] = rectified(lr, steps, params_);
  auto scales = at::_foreach_sqrt(squares);
  at::_foreach_mul_(scales, inverse_root.unbind());
  at::_foreach_add_(scales, eps.unbind());
  const auto moves = at::_foreach_mul(means, step_size.unbind());
  at::_foreach_div_(moves, scales);
  if (decoupled && decay != 0) at::_foreach_mul_(update.parameters, 1 - lr * decay);
  at::_foreach_sub_(update.parameters, moves);
}

bool RAdam::in_one_pass(const ParameterGroup&) const { return typeid(*this) == typeid(RAdam); }

UpdateRule RAdam::next_rule(const ParameterGroup& group, const std::vector<at::Tensor>& state,
                            bool) {
  const double lr = *group.lr.const_data_ptr<float>();
  const double step = *state[2].mutable_data_ptr<float>() += 1;
  const double coupled = params_.decoupled_weight_decay ? 0 : group.weight_decay;
  const auto [step_size, root, eps] = rectified(lr, step, params_);
  return AdamRule{.decay = static_cast<float>(coupled),
                  .shrink = static_cast<float>(1 - lr * (group.weight_decay - coupled)),
                  .mean_share = static_cast<float>(1 - params_.betas[0]),
                  .beta2 = static_cast<float>(params_.betas[1]),
                  .square_share = static_cast<float>(1 - params_.betas[1]),
                  .step_size = static_cast<float>(step_size),
                  .root = static_cast<float>(root),
                  .eps = static_cast<float>(eps)};
}

}  // namespace composer

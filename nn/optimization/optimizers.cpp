#include "nn/optimization/optimizers.h"

#include <cmath>
#include <limits>

#include "nn/device/optional_tensor.h"
#include "nn/optimization/skipped_step.h"

namespace composer {
namespace {

/// Weight decay per unit of learning rate, for a decoupled optimizer.
double decay_rate(const ParameterGroup& group) {
  return group.initial_lr > 0 ? group.weight_decay / group.initial_lr : 0;
}

float lr_of(const ParameterGroup& group) { return *group.lr.const_data_ptr<float>(); }

/// Above this rho the variance of the gradients' size counts as known.
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

/// RectifiedStep of several parameters with steps [n]: [n] each, with the inverse of the root.
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

/// d = g + weight_decay * w of each parameter; 0 where found_inf is 1.
std::vector<at::Tensor> decayed(const std::vector<at::Tensor>& gradients,
                                const std::vector<at::Tensor>& weights, double weight_decay,
                                const at::Tensor& found_inf) {
  return zero_if(found_inf, weight_decay == 0 ? gradients
                                              : at::_foreach_add(gradients, weights, weight_decay));
}

/// The norm of each tensor, float32 [n].
at::Tensor norms_of(const std::vector<at::Tensor>& tensors) {
  return at::stack(at::_foreach_norm(tensors, 2)).to(at::kFloat);
}

/// `ratios` where both norms are above 0, else 1. All [n].
at::Tensor where_moving(const at::Tensor& ratios, const at::Tensor& a, const at::Tensor& b) {
  return at::where((a > 0).logical_and(b > 0), ratios, at::ones_like(ratios));
}

}  // namespace

std::string problem_of_nesterov(bool nesterov, double momentum, double dampening) {
  if (nesterov && (momentum == 0 || dampening != 0))
    return "nesterov: needs momentum above 0 and dampening 0";
  return "";
}

std::string problem_of_betas(const std::vector<double>& betas) {
  if (betas.size() != 2) return "betas: must be two numbers, for instance [0.9, 0.999]";
  if (betas[0] == 1 || betas[1] == 1) return "betas: must be below 1";
  return "";
}

Sgd::Sgd(const Params& params)
    : Optimizer(options_of(params), params.momentum != 0
                                        ? std::vector<StateKind>{{"momentum_buffer"}}
                                        : std::vector<StateKind>{}),
      params_(params) {}

void Sgd::update(Update& update) { update_fused(update, update.group.weight_decay); }

void Sgd::update_fused(Update& update, double weight_decay) const {
  const std::vector<at::Tensor> none;
  at::_fused_sgd_(update.parameters, update.gradients,
                  update.state.empty() ? none : update.state[0], weight_decay, params_.momentum,
                  update.group.lr, params_.dampening, params_.nesterov, /*maximize=*/false,
                  /*is_first_step=*/update.first,
                  /*grad_scale=*/{}, if_defined(update.found_inf));
}

UpdateRule Sgd::next_rule(const ParameterGroup& group, const State&, bool first) {
  return SgdRule{.lr = lr_of(group),
                 .decay = static_cast<float>(group.weight_decay),
                 .momentum = static_cast<float>(params_.momentum),
                 .gradient_share = first ? 1 : static_cast<float>(1 - params_.dampening),
                 .nesterov = params_.nesterov};
}

void DecoupledSgdw::update(Update& update) {
  if (const double rate = decay_rate(update.group); rate != 0) {
    at::Tensor decay = update.group.lr * rate;
    if (update.found_inf.defined()) decay = decay * (1 - update.found_inf);
    at::_foreach_mul_(update.parameters, 1 - decay);
  }
  update_fused(update, 0);
}

UpdateRule DecoupledSgdw::next_rule(const ParameterGroup& group, const State& state, bool first) {
  auto rule = std::get<SgdRule>(Sgd::next_rule(group, state, first));
  rule.decay = 0;
  rule.shrink = static_cast<float>(1 - rule.lr * decay_rate(group));
  return rule;
}

AdamW::AdamW(const Params& params)
    : Optimizer(options_of(params),
                params.amsgrad
                    ? std::vector<StateKind>{{"exp_avg"},
                                             {"exp_avg_sq"},
                                             {"step", true},
                                             {"max_exp_avg_sq"}}
                    : std::vector<StateKind>{{"exp_avg"}, {"exp_avg_sq"}, {"step", true}}),
      params_(params) {}

void AdamW::update_fused(Update& update, double weight_decay, bool coupled) const {
  const std::vector<at::Tensor> none;
  const auto& steps = update.state[2];
  advance_unless(update.found_inf, steps);
  using Fused = void(at::TensorList, at::TensorList, at::TensorList, at::TensorList, at::TensorList,
                     at::TensorList, const at::Tensor&, double, double, double, double, bool, bool,
                     const std::optional<at::Tensor>&, const std::optional<at::Tensor>&);
  Fused* const fused =
      coupled ? static_cast<Fused*>(at::_fused_adam_) : static_cast<Fused*>(at::_fused_adamw_);
  fused(update.parameters, update.gradients, update.state[0], update.state[1],
        params_.amsgrad ? update.state[3] : none, steps, update.group.lr, params_.betas[0],
        params_.betas[1], weight_decay, params_.eps, params_.amsgrad, /*maximize=*/false,
        /*grad_scale=*/{}, if_defined(update.found_inf));
}

AdamRule AdamW::rule(const ParameterGroup& group, const State& state, double weight_decay) const {
  const double beta1 = params_.betas[0], beta2 = params_.betas[1];
  const double lr = lr_of(group), step = *state[2].mutable_data_ptr<float>() += 1;
  return {.decay = 0,
          .shrink = static_cast<float>(1 - lr * weight_decay),
          .mean_share = static_cast<float>(1 - beta1),
          .beta2 = static_cast<float>(beta2),
          .square_share = static_cast<float>(1 - beta2),
          .step_size = static_cast<float>(lr / (1 - std::pow(beta1, step))),
          .root = static_cast<float>(std::sqrt(1 - std::pow(beta2, step))),
          .eps = static_cast<float>(params_.eps),
          .amsgrad = params_.amsgrad};
}

UpdateRule AdamW::next_rule(const ParameterGroup& group, const State& state, bool) {
  return rule(group, state, group.weight_decay);
}

UpdateRule DecoupledAdamW::next_rule(const ParameterGroup& group, const State& state, bool) {
  return rule(group, state, decay_rate(group));
}

void DecoupledAdamW::update(Update& update) { update_fused(update, decay_rate(update.group)); }

void Adam::update(Update& update) {
  update_fused(update, update.group.weight_decay, /*coupled=*/true);
}

UpdateRule Adam::next_rule(const ParameterGroup& group, const State& state, bool) {
  auto adam = rule(group, state, /*weight_decay=*/0);
  adam.decay = static_cast<float>(group.weight_decay);
  return adam;
}

Rmsprop::Rmsprop(const Params& params)
    : Optimizer(options_of(params),
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

UpdateRule Rmsprop::next_rule(const ParameterGroup& group, const State&, bool) {
  return RmspropRule{.lr = *group.lr.const_data_ptr<float>(),
                     .decay = static_cast<float>(group.weight_decay),
                     .alpha = static_cast<float>(params_.alpha),
                     .square_share = static_cast<float>(1 - params_.alpha),
                     .eps = static_cast<float>(params_.eps),
                     .momentum = static_cast<float>(params_.momentum),
                     .centered = params_.centered};
}

RAdam::RAdam(const Params& params)
    : Optimizer(options_of(params), {{"exp_avg"}, {"exp_avg_sq"}, {"step", true}}),
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

UpdateRule RAdam::next_rule(const ParameterGroup& group, const State& state, bool) {
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

Lars::Lars(const Params& params)
    : Optimizer(options_of(params), params.momentum != 0
                                        ? std::vector<StateKind>{{"momentum_buffer"}}
                                        : std::vector<StateKind>{}),
      params_(params) {}

std::vector<at::Tensor> Lars::adapted(const Update& update) const {
  const double decay = update.group.weight_decay;
  if (decay == 0 && !params_.always_adapt) return update.gradients;
  const auto weights = norms_of(update.parameters), gradients = norms_of(update.gradients);
  auto ratios =
      where_moving(params_.trust_coeff * weights / (gradients + decay * weights + params_.eps),
                   weights, gradients);
  if (params_.trust_clip) ratios = (ratios / update.group.lr).clamp_max(1);
  auto directions = at::_foreach_add(update.gradients, update.parameters, decay);
  at::_foreach_mul_(directions, ratios.unbind());
  return directions;
}

void Lars::update(Update& update) {
  const auto directions = adapted(update);
  at::_fused_sgd_(update.parameters, directions,
                  update.state.empty() ? std::vector<at::Tensor>{} : update.state[0],
                  /*weight_decay=*/0, params_.momentum, update.group.lr, params_.dampening,
                  params_.nesterov, /*maximize=*/false, /*is_first_step=*/update.first,
                  /*grad_scale=*/{}, if_defined(update.found_inf));
}

Lamb::Lamb(const Params& params)
    : Optimizer(options_of(params), {{"exp_avg"}, {"exp_avg_sq"}, {"step", true}}),
      params_(params) {}

std::vector<at::Tensor> Lamb::directions(const Update& update) const {
  const double beta1 = params_.betas[0], beta2 = params_.betas[1];
  const auto gradients = zero_if(update.found_inf, update.gradients);
  const auto &means = update.state[0], &squares = update.state[1];
  const auto steps = count_unless(update.found_inf, update.state[2]);
  multiply_unless(update.found_inf, means, beta1);
  at::_foreach_add_(means, gradients, params_.grad_averaging ? 1 - beta1 : 1);
  multiply_unless(update.found_inf, squares, beta2);
  at::_foreach_addcmul_(squares, gradients, gradients, 1 - beta2);

  auto scales = at::_foreach_sqrt(squares);
  if (params_.bias_correction)
    at::_foreach_mul_(scales, (1 - at::pow(beta2, steps)).rsqrt().unbind());
  at::_foreach_add_(scales, params_.eps);
  auto directions = at::_foreach_div(means, scales);
  if (params_.bias_correction)
    at::_foreach_mul_(directions, (1 - at::pow(beta1, steps)).reciprocal().unbind());
  if (const double decay = update.group.weight_decay; decay != 0)
    at::_foreach_add_(directions, update.parameters, decay);
  return directions;
}

void Lamb::update(Update& update) {
  const auto moves = directions(update);
  if (update.group.weight_decay != 0 || params_.always_adapt) {
    const auto weights = norms_of(update.parameters), lengths = norms_of(moves);
    auto ratios = where_moving(weights / lengths, weights, lengths);
    if (params_.trust_clip) ratios = ratios.clamp_max(1);
    at::_foreach_mul_(moves, ratios.unbind());
  }
  at::_foreach_mul_(moves, zero_if(update.found_inf, update.group.lr));
  at::_foreach_sub_(update.parameters, moves);
}

}  // namespace composer

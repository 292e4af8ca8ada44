#include "nn/optimization/optimizers.h"

#include <cmath>
#include <typeinfo>

#include "nn/device/optional_tensor.h"

namespace composer {
namespace {

/// Decay a unit of learning rate, for a decoupled optimizer.
double decay_rate(const ParameterGroup& group) {
  return group.initial_lr > 0 ? group.weight_decay / group.initial_lr : 0;
}

float lr_of(const ParameterGroup& group) { return *group.lr.const_data_ptr<float>(); }

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
    : Optimizer({.lr = params.lr,
                 .weight_decay = params.weight_decay,
                 .no_decay_norm_bias = params.no_decay_norm_bias,
                 .grouping = params.grouping},
                params.momentum != 0 ? std::vector<StateKind>{{"momentum_buffer"}}
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

bool Sgd::in_one_pass(const ParameterGroup&) const { return typeid(*this) == typeid(Sgd); }

UpdateRule Sgd::next_rule(const ParameterGroup& group, const std::vector<at::Tensor>&, bool first) {
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

bool DecoupledSgdw::in_one_pass(const ParameterGroup&) const {
  return typeid(*this) == typeid(DecoupledSgdw);
}

UpdateRule DecoupledSgdw::next_rule(const ParameterGroup& group,
                                    const std::vector<at::Tensor>& state, bool first) {
  auto rule = std::get<SgdRule>(Sgd::next_rule(group, state, first));
  rule.decay = 0;
  rule.shrink = static_cast<float>(1 - rule.lr * decay_rate(group));
  return rule;
}

AdamW::AdamW(const Params& params)
    : Optimizer({.lr = params.lr,
                 .weight_decay = params.weight_decay,
                 .no_decay_norm_bias = params.no_decay_norm_bias,
                 .grouping = params.grouping},
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
  if (update.found_inf.defined())
    at::_foreach_add_(steps, 1 - update.found_inf);
  else
    at::_foreach_add_(steps, 1);
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

AdamRule AdamW::rule(const ParameterGroup& group, const std::vector<at::Tensor>& state,
                     double weight_decay) const {
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

bool AdamW::in_one_pass(const ParameterGroup&) const { return typeid(*this) == typeid(AdamW); }

UpdateRule AdamW::next_rule(const ParameterGroup& group, const std::vector<at::Tensor>& state,
                            bool) {
  return rule(group, state, group.weight_decay);
}

bool DecoupledAdamW::in_one_pass(const ParameterGroup&) const {
  return typeid(*this) == typeid(DecoupledAdamW);
}

UpdateRule DecoupledAdamW::next_rule(const ParameterGroup& group,
                                     const std::vector<at::Tensor>& state, bool) {
  return rule(group, state, decay_rate(group));
}

void DecoupledAdamW::update(Update& update) { update_fused(update, decay_rate(update.group)); }

void Adam::update(Update& update) {
  update_fused(update, update.group.weight_decay, /*coupled=*/true);
}

bool Adam::in_one_pass(const ParameterGroup&) const { return typeid(*this) == typeid(Adam); }

UpdateRule Adam::next_rule(const ParameterGroup& group, const std::vector<at::Tensor>& state,
                           bool) {
  auto adam = rule(group, state, /*weight_decay=*/0);
  adam.decay = static_cast<float>(group.weight_decay);
  return adam;
}

}  // namespace composer

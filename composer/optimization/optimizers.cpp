#include "composer/optimization/optimizers.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <optional>

namespace composer {
namespace {

std::optional<at::Tensor> given(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

/// Decay a unit of learning rate, for a decoupled optimizer.
double decay_rate(const ParameterGroup& group) {
  return group.initial_lr > 0 ? group.weight_decay / group.initial_lr : 0;
}

struct SgdwStep {
  float shrink, lr, momentum, gradient_share;  // gradient_share: 1 - dampening, or 1 at first
  bool nesterov;
};

void sgdw_span(const SgdwStep& step, int64_t count, float* __restrict parameter,
               const float* __restrict gradient, float* __restrict buffer) {
  const auto [shrink, lr, momentum, gradient_share, nesterov] = step;
  if (!buffer) {
    for (int64_t i = 0; i < count; ++i) parameter[i] = parameter[i] * shrink - lr * gradient[i];
  } else if (nesterov) {
    for (int64_t i = 0; i < count; ++i) {
      const float kept = buffer[i] = momentum * buffer[i] + gradient_share * gradient[i];
      parameter[i] = parameter[i] * shrink - lr * (gradient[i] + momentum * kept);
    }
  } else {
    for (int64_t i = 0; i < count; ++i) {
      const float kept = buffer[i] = momentum * buffer[i] + gradient_share * gradient[i];
      parameter[i] = parameter[i] * shrink - lr * kept;
    }
  }
}

/// Decay and step in one pass over memory, which is what bounds it on a CPU.
void sgdw_in_one_pass(const std::vector<at::Tensor>& parameters,
                      const std::vector<at::Tensor>& gradients,
                      const std::vector<at::Tensor>* buffers, const SgdwStep& step) {
  constexpr int64_t grain = 1 << 15;
  for (size_t i = 0; i < parameters.size(); ++i) {
    auto* values = parameters[i].data_ptr<float>();
    const auto* gradient = gradients[i].const_data_ptr<float>();
    auto* buffer = buffers ? (*buffers)[i].data_ptr<float>() : nullptr;
    at::parallel_for(0, parameters[i].numel(), grain, [&](int64_t begin, int64_t end) {
      sgdw_span(step, end - begin, values + begin, gradient + begin,
                buffer ? buffer + begin : nullptr);
    });
    parameters[i].unsafeGetTensorImpl()->bump_version();
  }
}

bool one_pass_possible(const std::vector<at::Tensor>& parameters) {
  return std::all_of(parameters.begin(), parameters.end(), [](const at::Tensor& parameter) {
    return parameter.is_cpu() && parameter.scalar_type() == at::kFloat &&
           parameter.is_non_overlapping_and_dense();
  });
}

}  // namespace

std::string SgdParams::check() const {
  if (nesterov && (momentum == 0 || dampening != 0))
    return "nesterov: needs momentum above 0 and dampening 0";
  return "";
}

std::string AdamParams::check() const {
  if (betas.size() != 2) return "betas: must be two numbers, for instance [0.9, 0.999]";
  if (betas[0] == 1 || betas[1] == 1) return "betas: must be below 1";
  return "";
}

Sgd::Sgd(const Params& params)
    : Optimizer({.lr = params.lr,
                 .weight_decay = params.weight_decay,
                 .no_decay_norm_bias = params.no_decay_norm_bias},
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
                  /*grad_scale=*/{}, given(update.found_inf));
}

void DecoupledSgdw::update(Update& update) {
  const ParameterGroup& group = update.group;
  const double rate = decay_rate(group);
  if (one_pass_possible(update.parameters)) {
    if (update.found_inf.defined() && update.found_inf.item<float>() != 0) return;
    const auto lr = group.lr.item<float>();
    const double gradient_share = update.first ? 1 : 1 - params_.dampening;
    sgdw_in_one_pass(update.parameters, update.gradients,
                     update.state.empty() ? nullptr : &update.state[0],
                     {.shrink = static_cast<float>(1 - lr * rate),
                      .lr = lr,
                      .momentum = static_cast<float>(params_.momentum),
                      .gradient_share = static_cast<float>(gradient_share),
                      .nesterov = params_.nesterov});
    return;
  }
  if (rate != 0) {
    at::Tensor decay = group.lr * rate;
    if (update.found_inf.defined()) decay = decay * (1 - update.found_inf);
    at::_foreach_mul_(update.parameters, 1 - decay);
  }
  update_fused(update, 0);
}

AdamW::AdamW(const Params& params)
    : Optimizer({.lr = params.lr,
                 .weight_decay = params.weight_decay,
                 .no_decay_norm_bias = params.no_decay_norm_bias},
                params.amsgrad
                    ? std::vector<StateKind>{{"exp_avg"},
                                             {"exp_avg_sq"},
                                             {"step", true},
                                             {"max_exp_avg_sq"}}
                    : std::vector<StateKind>{{"exp_avg"}, {"exp_avg_sq"}, {"step", true}}),
      params_(params) {}

void AdamW::update_fused(Update& update, double weight_decay) const {
  const std::vector<at::Tensor> none;
  const auto& steps = update.state[2];
  if (update.found_inf.defined())
    at::_foreach_add_(steps, 1 - update.found_inf);
  else
    at::_foreach_add_(steps, 1);
  at::_fused_adamw_(update.parameters, update.gradients, update.state[0], update.state[1],
                    params_.amsgrad ? update.state[3] : none, steps, update.group.lr,
                    params_.betas[0], params_.betas[1], weight_decay, params_.eps, params_.amsgrad,
                    /*maximize=*/false, /*grad_scale=*/{}, given(update.found_inf));
}

void DecoupledAdamW::update(Update& update) { update_fused(update, decay_rate(update.group)); }

}  // namespace composer

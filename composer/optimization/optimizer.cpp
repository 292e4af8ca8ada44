#include "composer/optimization/optimizer.h"

#include <ATen/core/grad_mode.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <set>

#include "composer/error.h"

namespace composer {
namespace {

/// Whether elements that share an index also share an offset: strides of dimensions of size 1 do
/// not matter.
bool same_layout(const at::Tensor& a, const at::Tensor& b) {
  for (int64_t d = 0; d < a.dim(); ++d)
    if (a.size(d) != 1 && a.stride(d) != b.stride(d)) return false;
  return true;
}

/// `tensor` with the strides of `parameter`: fused kernels walk all their tensors linearly, and
/// those for CUDA compare strides.
at::Tensor aligned(const at::Tensor& tensor, const at::Tensor& parameter) {
  if (tensor.strides() == parameter.strides()) return tensor;
  if (same_layout(tensor, parameter))
    return tensor.as_strided(parameter.sizes(), parameter.strides());
  return at::empty_strided(parameter.sizes(), parameter.strides(), tensor.options()).copy_(tensor);
}

/// The parameters that require gradients, each once.
std::vector<std::pair<std::string, at::Tensor>> trained(torch::nn::Module& model) {
  std::vector<std::pair<std::string, at::Tensor>> parameters;
  std::set<at::TensorImpl*> seen;
  for (const auto& item : model.named_parameters())
    if (item.value().requires_grad() && seen.insert(item.value().unsafeGetTensorImpl()).second)
      parameters.emplace_back(item.key(), item.value());
  return parameters;
}

}  // namespace

void Optimizer::attach(torch::nn::Module& model, const Ranks& ranks) {
  ranks_ = ranks;
  states_.clear();
  groups_.clear();
  regroup(trained(model));
}

void Optimizer::follow(torch::nn::Module& model) {
  std::map<std::string, at::Tensor> before;
  for (const auto& group : groups_)
    for (size_t i = 0; i < group.names.size(); ++i) before[group.names[i]] = group.parameters[i];
  regroup(trained(model));
  States kept;
  for (const auto& group : groups_)
    for (size_t i = 0; i < group.names.size(); ++i) {
      const auto old = before.find(group.names[i]);
      if (old == before.end() || !old->second.is_same(group.parameters[i])) continue;
      if (auto state = states_.extract(group.names[i])) kept.insert(std::move(state));
    }
  states_ = std::move(kept);
}

void Optimizer::scale_lr(const std::map<std::string, double>& factors) {
  for (const auto& [name, factor] : factors)
    lr_factors_.try_emplace(name, 1).first->second *= factor;
  Named parameters;
  for (const auto& group : groups_)
    for (size_t i = 0; i < group.names.size(); ++i)
      parameters.emplace_back(group.names[i], group.parameters[i]);
  if (!parameters.empty()) regroup(parameters);
}

ParameterSettings Optimizer::settings(const std::string&, const at::Tensor& parameter) const {
  const bool exempt = options_.no_decay_norm_bias && parameter.dim() <= 1;
  return {.initial_lr = options_.lr, .weight_decay = exempt ? 0 : options_.weight_decay};
}

void Optimizer::regroup(const Named& parameters) {
  std::vector<ParameterGroup> groups;
  for (const auto& [name, parameter] : parameters) {
    auto wanted = settings(name, parameter);
    if (const auto factor = lr_factors_.find(name); factor != lr_factors_.end()) {
      wanted.initial_lr *= factor->second;
      if (decay_follows_lr() && factor->second != 0) wanted.weight_decay /= factor->second;
    }
    const auto same = [&](const ParameterGroup& group) {
      return static_cast<const ParameterSettings&>(group) == wanted;
    };
    auto group = std::ranges::find_if(groups, same);
    if (group == groups.end()) {
      const auto options = at::TensorOptions(parameter.device()).dtype(at::kFloat);
      const auto old = std::ranges::find_if(groups_, same);
      group = groups.insert(groups.end(), ParameterGroup{wanted, {}, {}, {}});
      group->lr =
          old != groups_.end() ? old->lr : at::full({}, multiplier_ * wanted.initial_lr, options);
    }
    group->names.push_back(name);
    group->parameters.push_back(parameter);
  }
  if (groups.empty()) throw RunError("the model has no parameters that require gradients");
  groups_ = std::move(groups);
}

std::vector<at::Tensor> Optimizer::new_state(const at::Tensor& parameter) const {
  std::vector<at::Tensor> state;
  for (const auto& kind : kinds_)
    state.push_back(kind.scalar ? at::zeros({}, parameter.options().dtype(at::kFloat))
                                : at::zeros_like(parameter, at::MemoryFormat::Preserve));
  return state;
}

bool Optimizer::awaits_first_update(const ParameterGroup& group) const {
  for (size_t i = 0; i < group.names.size(); ++i)
    if (group.parameters[i].grad().defined() && !states_.contains(group.names[i])) return true;
  return false;
}

Optimizer::Update Optimizer::collect(const ParameterGroup& group, bool first,
                                     const at::Tensor& found_inf) {
  Update update{.group = group,
                .parameters = {},
                .gradients = {},
                .state = std::vector<std::vector<at::Tensor>>(kinds_.size()),
                .first = first,
                .found_inf = found_inf};
  for (size_t i = 0; i < group.names.size(); ++i) {
    const at::Tensor& parameter = group.parameters[i];
    const at::Tensor& gradient = parameter.grad();
    if (!gradient.defined()) continue;
    auto found = states_.find(group.names[i]);
    if (first_update_differs() && (found == states_.end()) != first) continue;
    if (found == states_.end()) found = states_.emplace(group.names[i], new_state(parameter)).first;
    update.parameters.push_back(parameter);
    update.gradients.push_back(aligned(gradient, parameter));
    for (size_t k = 0; k < kinds_.size(); ++k) {
      at::Tensor& state = found->second[k];
      if (!kinds_[k].scalar) state = aligned(state, parameter);
      update.state[k].push_back(state);
    }
  }
  return update;
}

void Optimizer::step(const at::Tensor& found_inf) {
  const at::NoGradGuard no_grad;
  const auto update_some = [&](const ParameterGroup& group, bool first) {
    Update some = collect(group, first, found_inf);
    if (!some.parameters.empty()) update(some);
  };
  for (const auto& group : groups_) {
    const bool awaited = first_update_differs() && awaits_first_update(group);
    update_some(group, false);
    if (awaited && !(found_inf.defined() && found_inf.item<float>() != 0)) update_some(group, true);
  }
}

void Optimizer::zero_grad() {
  for (const auto& group : groups_)
    for (const auto& parameter : group.parameters) parameter.mutable_grad().reset();
}

void Optimizer::set_lr_multiplier(double multiplier) {
  multiplier_ = multiplier;
  for (auto& group : groups_) group.lr.fill_(multiplier * group.initial_lr);
}

double Optimizer::lr() const { return multiplier_ * options_.lr; }

std::vector<at::Tensor> Optimizer::parameters() const {
  std::vector<at::Tensor> parameters;
  for (const auto& group : groups_)
    parameters.insert(parameters.end(), group.parameters.begin(), group.parameters.end());
  return parameters;
}

std::vector<at::Tensor> Optimizer::gradients() const {
  std::vector<at::Tensor> gradients;
  for (const auto& parameter : parameters())
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  return gradients;
}

StateDict Optimizer::state_dict() const {
  StateDict dict;
  for (const auto& [parameter, state] : states_)
    for (size_t k = 0; k < kinds_.size(); ++k)
      dict.tensors[kinds_[k].name + "." + parameter] = state[k];
  dict.values["lr_multiplier"] = multiplier_;
  return dict;
}

void Optimizer::load_state_dict(const StateDict& dict) {
  States states;
  std::vector<std::string> problems;
  auto unknown = dict.tensors;
  const auto load = [&](const std::string& parameter, std::vector<at::Tensor> state) {
    size_t found = 0;
    for (size_t k = 0; k < kinds_.size(); ++k) {
      const auto saved = unknown.extract(kinds_[k].name + "." + parameter);
      if (!saved) continue;
      ++found;
      if (saved.mapped().sizes() == state[k].sizes())
        state[k].copy_(saved.mapped());
      else
        problems.push_back("optimizer state '" + saved.key() + "': shape " +
                           c10::str(saved.mapped().sizes()) + " where the model needs " +
                           c10::str(state[k].sizes()));
    }
    if (found != 0 && found != kinds_.size())
      problems.push_back("optimizer state of '" + parameter + "' is incomplete");
    if (found == kinds_.size()) states.emplace(parameter, std::move(state));
  };
  for (const auto& group : groups_)
    for (size_t i = 0; i < group.names.size(); ++i)
      load(group.names[i], new_state(group.parameters[i]));
  for (const auto& [name, tensor] : unknown)
    problems.push_back("optimizer state '" + name +
                       "': this optimizer and model have no such state");
  if (!problems.empty()) throw UserError(problems);
  states_ = std::move(states);
  if (const auto* multiplier = dict.find<double>("lr_multiplier")) set_lr_multiplier(*multiplier);
}

}  // namespace composer

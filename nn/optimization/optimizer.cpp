#include "nn/optimization/optimizer.h"

#include <ATen/core/grad_mode.h>
#include <c10/util/StringUtil.h>

#include <set>

#include "base/balanced.h"
#include "base/error.h"
#include "base/name_pattern.h"
#include "nn/network/bf16_copy.h"
#include "nn/network/fused_norm.h"

namespace composer {
namespace {

/// Whether elements with the same index have the same offset; strides of dimensions of size 1 do
/// not matter.
bool same_layout(const at::Tensor& a, const at::Tensor& b) {
  for (int64_t d = 0; d < a.dim(); ++d)
    if (a.size(d) != 1 && a.stride(d) != b.stride(d)) return false;
  return true;
}

/// `tensor` with the strides of `parameter`: fused kernels read all their tensors linearly, and
/// those for CUDA compare strides.
at::Tensor aligned(const at::Tensor& tensor, const at::Tensor& parameter) {
  if (tensor.strides() == parameter.strides()) return tensor;
  if (same_layout(tensor, parameter))
    return tensor.as_strided(parameter.sizes(), parameter.strides());
  return at::empty_strided(parameter.sizes(), parameter.strides(), tensor.options()).copy_(tensor);
}

/// Waits for the flag's device.
bool is_set(const at::Tensor& flag) { return flag.defined() && flag.item<float>() != 0; }

/// The elements of `parameter`, [n], in an order that all ranks share.
at::Tensor row_of(const at::Tensor& parameter) {
  const auto plain = parameter.detach();
  return plain.is_non_overlapping_and_dense() ? plain.as_strided({plain.numel()}, {1})
                                              : plain.reshape({-1});
}

/// Reverses row_of().
void copy_row(const at::Tensor& row, const at::Tensor& parameter) {
  const auto plain = parameter.detach();
  if (plain.is_non_overlapping_and_dense())
    row_of(parameter).copy_(row);
  else
    plain.copy_(row.view(plain.sizes()));
}

/// Whether kernels may read its memory linearly.
bool is_dense_float(const at::Tensor& tensor) {
  return tensor.is_cpu() && tensor.scalar_type() == at::kFloat && tensor.layout() == at::kStrided &&
         tensor.is_non_overlapping_and_dense();
}

/// The parameters that require gradients, without duplicates.
std::vector<std::pair<std::string, at::Tensor>> trained(torch::nn::Module& model) {
  std::vector<std::pair<std::string, at::Tensor>> parameters;
  std::set<at::TensorImpl*> seen;
  for (const auto& item : model.named_parameters())
    if (item.value().requires_grad() && seen.insert(item.value().unsafeGetTensorImpl()).second)
      parameters.emplace_back(item.key(), item.value());
  return parameters;
}

/// The pattern for the network's last layer, unless a parameter has this name.
constexpr const char* head_pattern = "head";

/// Replaces a rule for "head" by rules for the parameters of the last layer.
void name_head(torch::nn::Module& model, std::vector<GroupRule>& groups) {
  const auto head = std::ranges::find(groups, head_pattern, &GroupRule::pattern);
  const auto parameters = model.named_parameters();
  if (head == groups.end() || parameters.contains(head_pattern)) return;
  auto* const network = dynamic_cast<Block*>(&model);
  const auto layers =
      network == nullptr ? std::vector<std::vector<std::string>>() : parameters_by_depth(*network);
  if (layers.empty()) return;
  std::vector<GroupRule> rules;
  for (const auto& name : layers.back())
    if (parameters[name].requires_grad())
      rules.push_back({name, head->lr_scale, head->weight_decay});
  if (rules.empty()) return;
  groups.insert(groups.erase(head), rules.begin(), rules.end());
}

}  // namespace

void Optimizer::attach(torch::nn::Module& model, const Ranks& ranks, Divided sharding) {
  ranks_ = ranks;
  const bool helps = !ranks.alone() && (sharding != Divided::state || keeps_state());
  sharding_ = helps ? sharding : Divided::nothing;
  kept_.clear();
  groups_.clear();
  follow(model);
  check_patterns();
}

void Optimizer::check_patterns() const {
  std::vector<std::string> problems;
  for (const auto& rule : options_.grouping.groups) {
    const auto fits_one = [&](const ParameterGroup& group) {
      return std::ranges::any_of(group.names,
                                 [&](const auto& name) { return fits(name, rule.pattern); });
    };
    if (std::ranges::any_of(groups_, fits_one)) continue;
    std::vector<std::string> names;
    for (const auto& group : groups_)
      names.insert(names.end(), group.names.begin(), group.names.end());
    problems.push_back("optimizer: groups: pattern '" + rule.pattern +
                       "' fits no parameter that is trained" + layer_hint(rule.pattern, names) +
                       "; they are named like " + names.front() + " and " + names.back());
  }
  if (!problems.empty()) throw UserError(problems);
}

void Optimizer::measure_depth(torch::nn::Module& model) {
  name_head(model, options_.grouping.groups);
  if (!options_.grouping.layer_decay) return;
  auto* const network = dynamic_cast<Block*>(&model);
  if (network == nullptr)
    throw UserError(
        "optimizer: layer_decay: the model is no composer::Block: the order of its "
        "layers is not known");
  depth_scales_ = scales_by_depth(*network, *options_.grouping.layer_decay);
  std::vector<std::string> problems;
  for (const auto& [name, parameter] : trained(model))
    if (!depth_scales_.contains(name))
      problems.push_back("optimizer: layer_decay: no layer of the model holds '" + name +
                         "', so its depth is not known; register it in a layer that add() takes");
  if (!problems.empty()) throw UserError(problems);
}

void Optimizer::follow(torch::nn::Module& model) {
  measure_depth(model);
  regroup(trained(model));
  find_bf16_copies(model);
}

void Optimizer::find_bf16_copies(torch::nn::Module& model) {
  std::map<const at::TensorImpl*, std::shared_ptr<Bf16Copy>> copies;
  std::map<const Bf16Copy*, const at::TensorImpl*> weights;  // null for a copy of several weights
  const auto look_at = [&](const torch::nn::Module& module) {
    const auto* const layer = dynamic_cast<const Bf16Weights*>(&module);
    if (layer == nullptr) return;
    for (const auto& [weight, copy] : layer->copied_weights()) {
      if (!weight.defined()) continue;
      copies[weight.unsafeGetTensorImpl()] = copy;
      auto& only = weights.try_emplace(copy.get(), weight.unsafeGetTensorImpl()).first->second;
      if (only != weight.unsafeGetTensorImpl()) only = nullptr;
    }
  };
  look_at(model);
  for (const auto& module : model.modules(/*include_self=*/false)) look_at(*module);
  for (size_t g = 0; g < groups_.size(); ++g)
    for (size_t i = 0; i < kept_[g].size(); ++i) {
      const auto found = copies.find(groups_[g].parameters[i].unsafeGetTensorImpl());
      const bool own = found != copies.end() && weights[found->second.get()] != nullptr;
      kept_[g][i].bf16_copy = own ? found->second : nullptr;
    }
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
  const bool vector =
      parameter.dim() <= 1 || (parameter.dim() == 3 && parameter.numel() == parameter.size(0));
  const bool exempt = options_.no_decay_norm_bias && vector;
  return {.initial_lr = options_.lr, .weight_decay = exempt ? 0 : options_.weight_decay};
}

ParameterSettings Optimizer::final_settings(const std::string& name,
                                            const at::Tensor& parameter) const {
  auto result = settings(name, parameter);
  double scale = 1;
  if (const auto depth = depth_scales_.find(name); depth != depth_scales_.end())
    scale = depth->second;
  if (const auto* const rule = rule_for(name, options_.grouping.groups)) {
    scale *= rule->lr_scale;
    result.weight_decay = rule->weight_decay.value_or(result.weight_decay);
  }
  result.initial_lr *= scale;
  // Otherwise the update multiplies weight decay by the learning rate.
  if (!decay_follows_lr()) result.weight_decay *= scale;
  if (const auto factor = lr_factors_.find(name); factor != lr_factors_.end()) {
    result.initial_lr *= factor->second;
    if (decay_follows_lr() && factor->second != 0) result.weight_decay /= factor->second;
  }
  return result;
}

UpdateRule Optimizer::next_rule(const ParameterGroup&, const State&, bool) {
  throw RunError("an optimizer that updates in one pass has no rule for it");
}

void Optimizer::regroup(const Named& parameters) {
  std::vector<ParameterGroup> groups;
  for (const auto& [name, parameter] : parameters) {
    const auto wanted = final_settings(name, parameter);
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
  auto kept = take_over(groups);
  groups_ = std::move(groups);
  kept_ = std::move(kept);
  if (is_sharded()) share_out();
}

void Optimizer::share_out() {
  std::vector<double> loads(static_cast<size_t>(ranks_.size())), sizes;
  std::vector<Kept*> without;
  for (size_t g = 0; g < groups_.size(); ++g)
    for (size_t i = 0; i < kept_[g].size(); ++i) {
      const auto size = static_cast<double>(groups_[g].parameters[i].nbytes());
      if (const auto owner = kept_[g][i].owner) {
        loads[static_cast<size_t>(*owner)] += size;
      } else {
        without.push_back(&kept_[g][i]);
        sizes.push_back(size);
      }
    }
  const auto owners = balanced(sizes, loads);
  for (size_t i = 0; i < owners.size(); ++i) without[i]->owner = static_cast<int64_t>(owners[i]);
}

std::vector<std::vector<Optimizer::Kept>> Optimizer::take_over(
    const std::vector<ParameterGroup>& groups) {
  std::map<std::string, std::pair<at::Tensor, Kept*>> before;
  for (size_t g = 0; g < groups_.size(); ++g)
    for (size_t i = 0; i < groups_[g].names.size(); ++i)
      before[groups_[g].names[i]] = {groups_[g].parameters[i], &kept_[g][i]};
  std::vector<std::vector<Kept>> all;
  for (const auto& group : groups) {
    auto& kept = all.emplace_back(group.names.size());
    for (size_t i = 0; i < kept.size(); ++i) {
      const auto old = before.find(group.names[i]);
      if (old != before.end() && old->second.first.is_same(group.parameters[i]))
        kept[i] = std::move(*old->second.second);
    }
  }
  return all;
}

Optimizer::State Optimizer::new_state(const at::Tensor& parameter, bool own) const {
  State state;
  for (const auto& kind : kinds_) {
    const auto options = kind.scalar ? parameter.options().dtype(at::kFloat) : parameter.options();
    if (!own)
      state.push_back(at::empty(kind.scalar ? at::IntArrayRef() : parameter.sizes(),
                                options.device(at::kMeta)));
    else if (kind.scalar)
      state.push_back(at::zeros({}, options));
    else
      state.push_back(at::zeros_like(parameter, at::MemoryFormat::Preserve));
  }
  return state;
}

Optimizer::State& Optimizer::state_of(size_t group, size_t index) {
  const at::Tensor& parameter = groups_[group].parameters[index];
  State& state = kept_[group][index].state;
  const bool own = is_own(kept_[group][index]);
  if (state.empty()) state = new_state(parameter, own);
  for (size_t k = 0; k < state.size(); ++k)
    if (own && !kinds_[k].scalar) state[k] = aligned(state[k], parameter);
  return state;
}

bool Optimizer::add_to_pass(size_t group, size_t index) {
  const at::Tensor& parameter = groups_[group].parameters[index];
  const at::Tensor& gradient = parameter.grad();
  if (!in_one_pass(groups_[group]) || !is_dense_float(parameter) || !is_dense_float(gradient) ||
      Unfused::keeps_back())
    return false;
  const bool first = kept_[group][index].state.empty();
  const State& state = state_of(group, index);
  gradients_.push_back(same_layout(gradient, parameter) ? gradient : aligned(gradient, parameter));
  passed_.push_back({parameter, nullptr, {}});
  UpdateSpan span{.size = parameter.numel(),
                  .weight = parameter.mutable_data_ptr<float>(),
                  .gradient = gradients_.back().const_data_ptr<float>()};
  if (auto* const copy = kept_[group][index].bf16_copy.get())
    if (auto* const room = copy->room_for(parameter)) {
      span.rounded = reinterpret_cast<uint16_t*>(room);
      passed_.back().bf16_copy = copy;
    }
  add_average(span, parameter);
  for (size_t k = 0, next = 0; k < state.size(); ++k)
    if (!kinds_[k].scalar) span.state[next++] = state[k].mutable_data_ptr<float>();
  pass_.add(next_rule(groups_[group], state, first), span);
  return true;
}

void Optimizer::add_average(UpdateSpan& span, const at::Tensor& parameter) {
  const auto found = averages_.find(parameter.unsafeGetTensorImpl());
  // An average that all ranks have must get the same bits on each, whichever rank updates the
  // weight.
  if (found == averages_.end() || sharding_ == Divided::state) return;
  const auto [weight, average, share] = found->second;
  if (!is_dense_float(average) || !same_layout(average, parameter)) return;
  span.average = average.mutable_data_ptr<float>();
  span.average_share = static_cast<float>(share);
  passed_.back().average = average;
  averages_.erase(found);
}

void Optimizer::run_pass() {
  pass_.run();
  for (const auto& [parameter, copy, average] : passed_) {
    parameter.unsafeGetTensorImpl()->bump_version();
    if (average.defined()) average.unsafeGetTensorImpl()->bump_version();
    if (copy != nullptr) copy->filled_for(parameter);
  }
  passed_.clear(), gradients_.clear();
}

Optimizer::Update Optimizer::collect(size_t group, const std::vector<size_t>& indices, bool first,
                                     const at::Tensor& found_inf) {
  Update update{groups_[group], {}, {}, std::vector<State>(kinds_.size()), first, found_inf};
  for (const size_t i : indices) {
    const at::Tensor& parameter = update.group.parameters[i];
    update.parameters.push_back(parameter);
    update.gradients.push_back(aligned(parameter.grad(), parameter));
    const State& state = state_of(group, i);
    for (size_t k = 0; k < kinds_.size(); ++k) update.state[k].push_back(state[k]);
  }
  return update;
}

void Optimizer::update_others(size_t group, const std::vector<size_t>& indices,
                              const at::Tensor& found_inf) {
  const auto update_some = [&](const std::vector<size_t>& some, bool first) {
    if (some.empty()) return;
    Update all = collect(group, some, first, found_inf);
    update(all);
    // LibTorch's fused operators do not increment versions.
    for (const auto& parameter : all.parameters)
      if (!parameter.is_inference()) parameter.unsafeGetTensorImpl()->bump_version();
  };
  std::vector<size_t> known, fresh;
  for (const size_t i : indices)
    (first_update_differs() && kept_[group][i].state.empty() ? fresh : known).push_back(i);
  update_some(known, false);
  if (!fresh.empty() && !is_set(found_inf)) update_some(fresh, true);
}

void Optimizer::step(const at::Tensor& found_inf) try {
  const at::NoGradGuard no_grad;
  const bool known = found_inf.defined() && found_inf.is_cpu();
  if (!known)
    update_all(found_inf);
  else if (!is_set(found_inf))
    update_all({});
  move_other_averages();
  if (sharding_ == Divided::weights) ask_for_states();
} catch (...) {
  drop_step();
  throw;
}

void Optimizer::average_with_next_step(const std::vector<at::Tensor>& weights,
                                       const std::vector<at::Tensor>& averages, double share) {
  for (size_t i = 0; i < weights.size(); ++i) {
    const auto* const key = weights[i].unsafeGetTensorImpl();
    const auto [begin, end] = averages_.equal_range(key);
    const auto same = std::find_if(
        begin, end, [&](const auto& item) { return item.second.average.is_same(averages[i]); });
    if (same != end)
      same->second.share = share;
    else
      averages_.emplace(key, Average{weights[i], averages[i], share});
  }
}

void Optimizer::move_other_averages() {
  struct Lists {
    std::vector<at::Tensor> weights, averages;
  };
  std::map<double, Lists> by_share;
  for (const auto& [key, item] : averages_) {
    auto& lists = by_share[item.share];
    lists.weights.push_back(item.weight), lists.averages.push_back(item.average);
  }
  for (auto& [share, lists] : by_share) at::_foreach_lerp_(lists.averages, lists.weights, share);
  averages_.clear();
}

void Optimizer::drop_step() {
  pass_.clear(), passed_.clear(), gradients_.clear(), averages_.clear();
}

void Optimizer::update_all(const at::Tensor& found_inf) {
  std::vector<std::vector<size_t>> others(groups_.size());
  for (size_t g = 0; g < groups_.size(); ++g)
    for (size_t i = 0; i < groups_[g].parameters.size(); ++i)
      if (groups_[g].parameters[i].grad().defined() && is_own(kept_[g][i]) && !add_to_pass(g, i))
        others[g].push_back(i);
  run_pass();
  for (size_t g = 0; g < groups_.size(); ++g) update_others(g, others[g], found_inf);
  if (sharding_ != Divided::state) return;
  note_states(found_inf);
  exchange();
}

void Optimizer::note_states(const at::Tensor& found_inf) {
  std::vector<std::pair<size_t, size_t>> fresh;
  for (size_t g = 0; g < groups_.size(); ++g)
    for (size_t i = 0; i < kept_[g].size(); ++i)
      if (groups_[g].parameters[i].grad().defined() && kept_[g][i].state.empty() &&
          !is_own(kept_[g][i]))
        fresh.emplace_back(g, i);
  if (fresh.empty() || (first_update_differs() && is_set(found_inf))) return;
  for (const auto& [group, index] : fresh) state_of(group, index);
}

void Optimizer::ask_for_states() {
  std::vector<std::pair<size_t, size_t>> unknown;
  std::vector<int64_t> there;
  for (size_t g = 0; g < groups_.size(); ++g)
    for (size_t i = 0; i < kept_[g].size(); ++i) {
      if (kept_[g][i].known || !groups_[g].parameters[i].requires_grad()) continue;
      unknown.emplace_back(g, i);
      there.push_back(is_own(kept_[g][i]) && !kept_[g][i].state.empty());
    }
  if (unknown.empty() || !keeps_state()) return;
  const auto of_owners = at::tensor(there);
  ranks_.sum(of_owners);
  for (size_t k = 0; k < unknown.size(); ++k) {
    const auto [group, index] = unknown[k];
    if (of_owners[static_cast<int64_t>(k)].item<int64_t>() == 0) continue;
    state_of(group, index);
    kept_[group][index].known = true;
  }
}

void Optimizer::exchange() const {
  std::map<std::pair<int64_t, at::ScalarType>, std::vector<at::Tensor>> updated;
  for (size_t g = 0; g < groups_.size(); ++g)
    for (size_t i = 0; i < kept_[g].size(); ++i) {
      const auto& parameter = groups_[g].parameters[i];
      if (parameter.grad().defined())
        updated[{*kept_[g][i].owner, parameter.scalar_type()}].push_back(parameter);
    }
  for (const auto& [key, parameters] : updated) {
    const int64_t owner = key.first;
    std::vector<at::Tensor> rows;
    int64_t size = 0;
    for (const auto& parameter : parameters) {
      rows.push_back(row_of(parameter));
      size += parameter.numel();
    }
    if (owner == ranks_.rank()) {
      ranks_.broadcast(at::cat(rows), owner);
      continue;
    }
    const auto received = at::empty({size}, rows[0].options());
    ranks_.broadcast(received, owner);
    int64_t begin = 0;
    for (const auto& parameter : parameters) {
      copy_row(received.narrow(0, begin, parameter.numel()), parameter);
      begin += parameter.numel();
    }
  }
}

bool Optimizer::first_update_waits() const {
  if (!first_update_differs()) return false;
  for (size_t g = 0; g < groups_.size(); ++g)
    for (size_t i = 0; i < kept_[g].size(); ++i)
      if (kept_[g][i].state.empty() && groups_[g].parameters[i].grad().defined()) return true;
  return false;
}

void Optimizer::zero_grad() {
  for (const auto& group : groups_)
    for (const auto& parameter : group.parameters) parameter.mutable_grad().reset();
}

void Optimizer::set_lr_multiplier(double multiplier) {
  multiplier_ = multiplier, scale_ = 1;
  for (auto& group : groups_) group.lr.fill_(multiplier * group.initial_lr);
}

void Optimizer::scale_lr_until_set(double factor) {
  scale_ *= factor;
  for (auto& group : groups_) group.lr.mul_(factor);
}

double Optimizer::lr() const { return multiplier_ * scale_ * options_.lr; }

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

std::vector<std::pair<at::Tensor, int64_t>> Optimizer::owners() const {
  std::vector<std::pair<at::Tensor, int64_t>> owners;
  for (size_t g = 0; is_sharded() && g < groups_.size(); ++g)
    for (size_t i = 0; i < kept_[g].size(); ++i)
      owners.emplace_back(groups_[g].parameters[i], *kept_[g][i].owner);
  return owners;
}

int64_t Optimizer::state_numbers() const {
  return std::ranges::count(kinds_, false, &StateKind::scalar);
}

StateDict Optimizer::state_dict() const {
  StateDict dict;
  for (size_t g = 0; g < groups_.size(); ++g)
    for (size_t i = 0; i < kept_[g].size(); ++i)
      for (size_t k = 0; k < kept_[g][i].state.size(); ++k) {
        const auto name = kinds_[k].name + "." + groups_[g].names[i];
        dict.tensors[name] = kept_[g][i].state[k];
        if (const auto owner = kept_[g][i].owner) dict.holders[name] = *owner;
      }
  dict.values["lr_multiplier"] = multiplier_;
  return dict;
}

void Optimizer::load_state_dict(const StateDict& dict) {
  std::vector<std::vector<State>> states;
  std::vector<std::string> problems;
  auto unknown = dict.tensors;
  const auto load = [&](const std::string& parameter, State state) -> State {
    size_t found = 0;
    for (size_t k = 0; k < kinds_.size(); ++k) {
      const auto saved = unknown.extract(kinds_[k].name + "." + parameter);
      if (!saved) continue;
      ++found;
      if (saved.mapped().sizes() == state[k].sizes()) {
        if (!state[k].is_meta()) state[k].copy_(saved.mapped());
      } else
        problems.push_back("optimizer state '" + saved.key() + "': shape " +
                           c10::str(saved.mapped().sizes()) + " where the model needs " +
                           c10::str(state[k].sizes()));
    }
    if (found != 0 && found != kinds_.size())
      problems.push_back("optimizer state of '" + parameter + "' is incomplete");
    return found == kinds_.size() ? state : State();
  };
  for (const auto& group : groups_) {
    states.emplace_back();
    for (size_t i = 0; i < group.names.size(); ++i)
      states.back().push_back(load(
          group.names[i], new_state(group.parameters[i], is_own(kept_[states.size() - 1][i]))));
  }
  for (const auto& [name, tensor] : unknown)
    problems.push_back("optimizer state '" + name +
                       "': this optimizer and model have no such state; resume with the settings "
                       "that the run began with "
                       "(freeze, optimizer, model), or give another --run_name");
  if (!problems.empty()) throw UserError(problems);
  for (size_t g = 0; g < groups_.size(); ++g)
    for (size_t i = 0; i < kept_[g].size(); ++i) {
      kept_[g][i].known = !states[g][i].empty();
      kept_[g][i].state = std::move(states[g][i]);
    }
  if (const auto* multiplier = dict.find<double>("lr_multiplier")) set_lr_multiplier(*multiplier);
}

}  // namespace composer

#include "algorithms/weight_copy.h"

#include <ATen/core/grad_mode.h>

#include "composer/error.h"
#include "composer/state.h"

namespace composer {

bool reached(const State& state, const Time& time) {
  if (time.unit == TimeUnit::duration) return state.elapsed() >= time.value;
  return static_cast<double>(state.time.batch) >= state.schedule.batches(time);
}

std::string check_start(const std::string& key, const Time& time) {
  const bool too_late = time.unit == TimeUnit::duration && time.value > 1;
  return time.unit == TimeUnit::second ? key + ": must be in ep, ba, sp or dur\n"
         : too_late                    ? key + ": must be at most 1dur\n"
                                       : "";
}

bool WeightCopy::ready(const torch::nn::Module& model) {
  if (loaded_.empty()) return !copies_.empty();
  const at::NoGradGuard no_grad;
  follow(model);
  std::vector<std::string> problems;
  for (size_t i = 0; i < names_.size(); ++i) {
    const auto found = loaded_.find(prefix_ + names_[i]);
    if (found == loaded_.end() || found->second.sizes() != weights_[i].sizes()) {
      problems.push_back("the checkpoint has no tensor '" + prefix_ + names_[i] +
                         "' of the model's shape; do model_name and the algorithms fit it?");
      continue;
    }
    copies_.push_back(at::empty_like(weights_[i]).copy_(found->second));
  }
  if (!problems.empty()) throw UserError(problems);
  loaded_.clear();
  return true;
}

void WeightCopy::start(const torch::nn::Module& model) {
  const at::NoGradGuard no_grad;
  follow(model);
  for (const auto& weight : weights_) copies_.push_back(weight.clone());
}

void WeightCopy::drop() { names_.clear(), weights_.clear(), copies_.clear(), loaded_.clear(); }

void WeightCopy::follow(const torch::nn::Module& model) {
  names_.clear(), weights_.clear(), copies_.clear();
  const auto add = [&](const auto& items) {
    for (const auto& item : items) names_.push_back(item.key()), weights_.push_back(item.value());
  };
  add(model.named_parameters());
  if (buffers_) add(model.named_buffers());
}

void WeightCopy::swap() {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < weights_.size(); ++i) {
    const auto kept = weights_[i].clone();
    weights_[i].copy_(copies_[i]);
    copies_[i].copy_(kept);
  }
}

void WeightCopy::save(StateDict& state) const {
  state.tensors.insert(loaded_.begin(), loaded_.end());
  if (loaded_.empty())
    for (size_t i = 0; i < names_.size(); ++i) state.tensors[prefix_ + names_[i]] = copies_[i];
}

void WeightCopy::load(const StateDict& state) {
  drop();
  for (const auto& [name, tensor] : state.tensors)
    if (name.starts_with(prefix_)) loaded_[name] = tensor;
}

}  // namespace composer

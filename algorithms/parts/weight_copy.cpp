#include "algorithms/parts/weight_copy.h"

#include <ATen/core/grad_mode.h>

#include <set>

#include "base/error.h"
#include "nn/state_dict.h"

namespace composer {

TensorPairs pairs_of(const std::vector<at::Tensor>& averages, const std::vector<at::Tensor>& values,
                     bool floating) {
  TensorPairs pairs;
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i].is_floating_point() == floating)
      pairs.averages.push_back(averages[i]), pairs.values.push_back(values[i]);
  return pairs;
}

void move_averages(const std::vector<at::Tensor>& averages, const std::vector<at::Tensor>& values,
                   double share) {
  const at::NoGradGuard no_grad;
  const auto floating = pairs_of(averages, values, true), other = pairs_of(averages, values, false);
  if (!floating.values.empty()) at::_foreach_lerp_(floating.averages, floating.values, share);
  if (!other.values.empty()) at::_foreach_copy_(other.averages, other.values);
}

bool WeightCopy::ready(const torch::nn::Module& model, const ShardedParameters* divided) {
  if (loaded_.empty()) return started_;
  const at::NoGradGuard no_grad;
  follow(model, divided);
  std::vector<std::string> problems;
  for (const auto& weight : weights_) copies_.push_back(at::empty_like(weight));
  for (const auto& [name, index, owner, own] : names_) {
    const auto found = loaded_.find(prefix_ + name);
    const auto& meant = own ? weights_[index] : elsewhere_[index];
    if (found == loaded_.end() || found->second.sizes() != meant.sizes())
      problems.push_back("the checkpoint has no tensor '" + prefix_ + name +
                         "' of the model's shape; do model_name and the algorithms fit it?");
    else if (own)
      copies_[index].copy_(found->second);
  }
  if (!problems.empty()) throw UserError(problems);
  loaded_.clear();
  return true;
}

void WeightCopy::start(const torch::nn::Module& model, const ShardedParameters* divided) {
  const at::NoGradGuard no_grad;
  follow(model, divided);
  for (const auto& weight : weights_) copies_.push_back(weight.clone());
}

void WeightCopy::drop() {
  names_.clear(), weights_.clear(), copies_.clear(), elsewhere_.clear(), loaded_.clear();
  started_ = false;
}

void WeightCopy::follow(const torch::nn::Module& model, const ShardedParameters* divided) {
  names_.clear(), weights_.clear(), copies_.clear(), elsewhere_.clear();
  started_ = true;
  std::map<const at::TensorImpl*, size_t> indices;
  const auto add = [&](const auto& items) {
    for (const auto& item : items) {
      const at::Tensor& tensor = item.value();
      const bool own = divided == nullptr || divided->is_own(tensor);
      auto& list = own ? weights_ : elsewhere_;
      const auto [index, fresh] = indices.try_emplace(tensor.unsafeGetTensorImpl(), list.size());
      if (fresh)
        list.push_back(own ? tensor
                           : at::empty(tensor.sizes(), tensor.options().device(at::kMeta)));
      const auto owner = divided == nullptr ? std::nullopt : divided->owner(tensor);
      names_.push_back({item.key(), index->second, owner, own});
    }
  };
  add(model.named_parameters());
  if (buffers_) add(model.named_buffers());
}

std::vector<at::Tensor> WeightCopy::copies_of_all() const {
  std::vector<at::Tensor> copies;
  std::set<size_t> indices;
  for (const auto& [name, index, owner, own] : names_)
    if (!owner && indices.insert(index).second) copies.push_back(copies_[index]);
  return copies;
}

void WeightCopy::swap() {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < weights_.size(); ++i) {
    const auto kept = weights_[i].clone();
    weights_[i].copy_(copies_[i]);
    copies_[i].copy_(kept);
  }
}

StateDict WeightCopy::save() const {
  StateDict state;
  state.tensors.insert(loaded_.begin(), loaded_.end());
  if (loaded_.empty())
    for (const auto& [name, index, owner, own] : names_) {
      state.tensors[prefix_ + name] = own ? copies_[index] : elsewhere_[index];
      if (owner) state.holders[prefix_ + name] = *owner;
    }
  return state;
}

void WeightCopy::load(const StateDict& state) {
  drop();
  for (const auto& [name, tensor] : state.tensors)
    if (name.starts_with(prefix_)) loaded_[name] = tensor;
}

}  // namespace composer

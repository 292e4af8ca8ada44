#include "composer/comparison/step_record.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include <map>

#include "composer/loop/state.h"
#include "nn/device/snapshot.h"
#include "nn/optimization/optimizer.h"

namespace composer {
namespace {

at::Tensor recorded_copy(const at::Tensor& tensor) {
  return tensor.detach().to(at::kCPU, at::kFloat, /*non_blocking=*/false, /*copy=*/true);
}

NamedTensors recorded_copies(const torch::OrderedDict<std::string, at::Tensor>& tensors) {
  NamedTensors copies;
  for (const auto& item : tensors) copies.emplace_back(item.key(), recorded_copy(item.value()));
  return copies;
}

TrainedState recorded_state(const State& state) {
  return {recorded_copies(state.model->named_parameters()),
          recorded_copies(state.model->named_buffers())};
}

StateDict recorded_optimizer(const State& state) {
  auto optimizer = state.optimizer->state_dict();
  for (auto& [name, tensor] : optimizer.tensors) tensor = tensor.detach().cpu().clone();
  return optimizer;
}

/// Behind the names of gradients of a batch's update, the first being 0.
std::string suffix(int64_t update) {
  return update == 0 ? "" : " in update " + std::to_string(update + 1);
}

NamedTensors recorded_gradients(Model& model, int64_t update) {
  NamedTensors gradients;
  for (const auto& item : model.named_parameters())
    if (item.value().grad().defined())
      gradients.emplace_back(item.key() + suffix(update), recorded_copy(item.value().grad()));
  return gradients;
}

void put_back(const NamedTensors& from, torch::OrderedDict<std::string, at::Tensor> onto) {
  for (const auto& [name, tensor] : from) onto[name].copy_(tensor);
}

void put_gradients(const NamedTensors& from, Model& model, int64_t update) {
  const std::map<std::string, at::Tensor> known(from.begin(), from.end());
  for (auto& item : model.named_parameters()) {
    const auto found = known.find(item.key() + suffix(update));
    auto& gradient = item.value().mutable_grad();
    if (found != known.end() && gradient.defined()) gradient.copy_(found->second);
  }
}

double norm_of(const at::Tensor& tensor) { return tensor.norm().item<double>(); }

/// Of each gradient the length of its difference in the other two lists, as a share of the length
/// that it has in `exact`, times the recorded one's: what algorithms do to gradients is in neither.
std::vector<double> gradient_noise(const NamedTensors& recorded, const NamedTensors& exact,
                                   const NamedTensors& disturbed) {
  const std::map<std::string, at::Tensor> ones(exact.begin(), exact.end()),
      others(disturbed.begin(), disturbed.end());
  std::vector<double> lengths;
  for (const auto& [name, tensor] : recorded) {
    const auto one = ones.find(name), other = others.find(name);
    const bool found = one != ones.end() && other != others.end();
    const double of = found ? norm_of(one->second) : 0;
    lengths.push_back(of > 0 ? norm_of(other->second - one->second) * (norm_of(tensor) / of) : 0);
  }
  return lengths;
}

/// Adds how far the statistics are from each other.
void add_distances(const NamedTensors& moved, const NamedTensors& from,
                   std::vector<double>& lengths) {
  lengths.resize(from.size());
  for (size_t i = 0; i < from.size(); ++i)
    lengths[i] += norm_of(moved.at(i).second - from[i].second);
}

/// Multiplies each weight by a number near 1.
void disturb(Model& model) {
  auto generator = at::detail::createCPUGenerator(/*seed_val=*/1);
  for (auto& parameter : model.parameters()) {
    const auto factors =
        at::empty(parameter.sizes(), at::kFloat).uniform_(-weight_noise, weight_noise, generator);
    parameter.mul_(factors.add_(1).to(parameter.device()));
  }
}

/// The gradients of an update computed again, with the draws that it had.
NamedTensors computed_again(State& state, const UpdateStart& start, int64_t update) {
  const DrawsAgain draws(state.device, start.generators);
  put_back(start.statistics, state.model->named_buffers());
  state.recompute_gradients();
  return recorded_gradients(*state.model, update);
}

/// Adds an update and its noise to the record; leaves the run as it is, the last computation being
/// that of the weights as they are, so that loss scaling finds what it found before.
void record_update(State& state, const UpdateStart& start, int64_t update, StepRecord& record) {
  Model& model = *state.model;
  const auto gradients = recorded_gradients(model, update);
  const auto weights = recorded_copies(model.named_parameters());
  const auto statistics = recorded_copies(model.named_buffers());
  disturb(model);
  const auto disturbed = computed_again(state, start, update);
  add_distances(recorded_copies(model.named_buffers()), statistics, record.statistics_noise);
  put_back(weights, model.named_parameters());
  const auto noise = gradient_noise(gradients, computed_again(state, start, update), disturbed);
  put_back(statistics, model.named_buffers());
  put_gradients(gradients, model, update);
  record.gradients.insert(record.gradients.end(), gradients.begin(), gradients.end());
  record.gradient_noise.insert(record.gradient_noise.end(), noise.begin(), noise.end());
}

}  // namespace

void StepWitness::augment(State& state) {
  const auto step = records_.size();
  records_.emplace_back();
  updates_ = 0;
  if (std::cmp_greater(step, steps_)) return;
  if (reference_ == nullptr) {
    befores_.push_back(
        {recorded_state(state), recorded_optimizer(state), generator_states(state.device)});
  } else if (step < reference_->befores_.size()) {
    const auto& like = reference_->befores_[step];
    const at::NoGradGuard no_grad;
    put_back(like.trained.weights, state.model->named_parameters());
    put_back(like.trained.statistics, state.model->named_buffers());
    state.optimizer->load_state_dict(like.optimizer);
    set_generator_states(state.device, like.generators);
  }
}

void StepWitness::before_train_batch(State& state) {
  if (reference_ == nullptr && std::cmp_less_equal(records_.size(), steps_))
    update_start_ = {recorded_copies(state.model->named_buffers()), generator_states(state.device)};
}

void StepWitness::before_backward(State& state) {
  auto& record = records_.back();
  record.loss += state.loss.item<double>();
  const auto logits = recorded_copy(state.outputs);
  record.logits = record.logits.defined() ? at::cat({record.logits, logits}) : logits;
}

void StepWitness::after_train_batch(State& state) {
  if (std::cmp_greater(records_.size(), steps_)) return;
  const auto step = records_.size() - 1;
  auto& record = records_.back();
  const auto update = updates_++;
  if (reference_ == nullptr) return record_update(state, update_start_, update, record);
  const auto gradients = recorded_gradients(*state.model, update);
  record.gradients.insert(record.gradients.end(), gradients.begin(), gradients.end());
  if (step < reference_->records().size())
    put_gradients(reference_->records()[step].gradients, *state.model, update);
}

void StepWitness::batch_end(State& state) {
  if (std::cmp_less_equal(records_.size(), steps_)) records_.back().after = recorded_state(state);
  if (std::ssize(records_) >= steps_ + free_steps_)
    state.run_length.max_duration = {static_cast<double>(state.time.batch), TimeUnit::batch};
}

}  // namespace composer

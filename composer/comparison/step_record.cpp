#include "composer/comparison/step_record.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include "composer/optimization/optimizer.h"
#include "composer/state.h"

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
  TrainedState trained{recorded_copies(state.model->named_parameters()),
                       recorded_copies(state.model->named_buffers()),
                       state.optimizer->state_dict()};
  for (auto& [name, tensor] : trained.optimizer.tensors) tensor = tensor.detach().cpu().clone();
  return trained;
}

NamedTensors recorded_gradients(Model& model) {
  NamedTensors gradients;
  for (const auto& item : model.named_parameters())
    if (item.value().grad().defined())
      gradients.emplace_back(item.key(), recorded_copy(item.value().grad()));
  return gradients;
}

void put_back(const NamedTensors& from, torch::OrderedDict<std::string, at::Tensor> onto) {
  for (const auto& [name, tensor] : from) onto[name].copy_(tensor);
}

void put_gradients(const NamedTensors& from, Model& model) {
  auto parameters = model.named_parameters();
  for (const auto& [name, tensor] : from)
    if (auto& gradient = parameters[name].mutable_grad(); gradient.defined())
      gradient.copy_(tensor);
}

std::vector<double> distances(const NamedTensors& moved, const NamedTensors& from) {
  std::vector<double> lengths;
  for (size_t i = 0; i < from.size(); ++i)
    lengths.push_back((moved.at(i).second - from[i].second).norm().item<double>());
  return lengths;
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

/// Adds the noise to the record, which has the gradients; leaves the run as it is. before: the
/// statistics that the step began with.
void add_noise(State& state, const NamedTensors& before, StepRecord& record) {
  Model& model = *state.model;
  const auto weights = recorded_copies(model.named_parameters());
  const auto statistics = recorded_copies(model.named_buffers());
  disturb(model);
  put_back(before, model.named_buffers());
  state.recompute_gradients();
  record.gradient_noise = distances(recorded_gradients(model), record.gradients);
  record.statistics_noise = distances(recorded_copies(model.named_buffers()), statistics);
  put_back(weights, model.named_parameters());
  put_back(statistics, model.named_buffers());
  put_gradients(record.gradients, model);
}

}  // namespace

void StepWitness::batch_start(State& state) {
  const auto step = records_.size();
  if (reference_ != nullptr && std::cmp_less_equal(step, steps_) &&
      step < reference_->records().size()) {
    const auto& like = reference_->before(step);
    const at::NoGradGuard no_grad;
    put_back(like.weights, state.model->named_parameters());
    put_back(like.statistics, state.model->named_buffers());
    state.optimizer->load_state_dict(like.optimizer);
  }
  if (step == 0) start_ = recorded_state(state);
  records_.emplace_back();
}

void StepWitness::before_backward(State& state) {
  auto& record = records_.back();
  record.loss += state.loss.item<double>();
  const auto logits = recorded_copy(state.outputs);
  record.logits = record.logits.defined() ? at::cat({record.logits, logits}) : logits;
}

void StepWitness::after_train_batch(State& state) {
  const auto step = records_.size() - 1;
  if (std::cmp_greater_equal(step, steps_)) return;
  auto& record = records_.back();
  record.gradients = recorded_gradients(*state.model);
  if (reference_ == nullptr)
    add_noise(state, before(step).statistics, record);
  else if (state.updates == 1 && step < reference_->records().size())
    put_gradients(reference_->records()[step].gradients, *state.model);
}

void StepWitness::batch_end(State& state) {
  records_.back().after = recorded_state(state);
  if (std::ssize(records_) >= steps_ + free_steps_)
    state.schedule.max_duration = {static_cast<double>(state.time.batch), TimeUnit::batch};
}

}  // namespace composer

#include "composer/run/captured_steps.h"

#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>

#include <exception>

#include "base/log.h"
#include "nn/device/cuda_library.h"
#include "nn/device/device.h"
#include "nn/device/snapshot.h"

namespace composer {
namespace {

/// The tensors of a batch, which may be undefined.
std::vector<at::Tensor*> tensors_of(Batch& batch) {
  auto tensors = batch.target.tensors();
  tensors.insert(tensors.begin(), &batch.input);
  return tensors;
}

Batch room_for(Batch batch) {
  for (auto* tensor : tensors_of(batch))
    if (tensor->defined()) *tensor = at::empty_like(*tensor);
  return batch;
}

void fill(Batch& room, Batch batch) {
  const at::NoGradGuard no_grad;
  const auto to = tensors_of(room), from = tensors_of(batch);
  for (size_t i = 0; i < to.size(); ++i)
    if (to[i]->defined()) to[i]->copy_(*from[i], /*non_blocking=*/true);
}

/// Whether a replay leaves out changes of the tensor.
bool out_of_reach(const at::Tensor& tensor, const State& state) {
  return tensor.is_cpu() && !state.device.is_cpu();
}

std::vector<int64_t> versions_of(const std::vector<at::Tensor>& tensors) {
  std::vector<int64_t> versions;
  for (const auto& tensor : tensors) versions.push_back(tensor._version());
  return versions;
}

}  // namespace

std::string prevents_graph_capture(const Engine& engine, bool alone) {
  if (!alone) return "the sums of several ranks are not recorded";
  for (const auto& algorithm : engine.algorithms())
    if (const auto reason = algorithm.component->prevents_graph_capture(); !reason.empty())
      return algorithm.name + ": " + reason;
  for (const auto& callback : engine.callbacks())
    for (auto i = static_cast<size_t>(Event::before_forward);
         i <= static_cast<size_t>(Event::after_train_batch); ++i)
      if (listens(callback, static_cast<Event>(i)))
        return callback.name + ": watches " + std::string(event_names[i]) + " of every step";
  return "";
}

CapturedSteps::Shape CapturedSteps::shape_of(const State& state) {
  Shape shape{{}, state.batch.target.smoothing, 0};
  shape.microbatches = (state.grad_accum + state.updates - 1) / state.updates;
  auto batch = state.batch;
  for (const auto* tensor : tensors_of(batch)) {
    auto& numbers = shape.sizes.emplace_back();
    if (!tensor->defined()) continue;
    numbers = tensor->sizes().vec();
    numbers.insert(numbers.end(), tensor->strides().begin(), tensor->strides().end());
    numbers.push_back(static_cast<int64_t>(tensor->scalar_type()));
  }
  return shape;
}

CapturedSteps::Footing CapturedSteps::footing_of(const State& state) const {
  Footing footing;
  const auto add = [&](const at::Tensor& tensor) {
    footing.memory.push_back(tensor.const_data_ptr());
    footing.trained.push_back(tensor.requires_grad());
  };
  for (const auto& group : state.optimizer->groups()) {
    footing.settings.push_back(group);
    add(group.lr);
    for (const auto& parameter : group.parameters) {
      footing.memory.push_back(parameter.unsafeGetTensorImpl());
      add(parameter);
    }
  }
  for (const auto& buffer : buffers_) add(buffer);
  return footing;
}

CapturedSteps::Step& CapturedSteps::step_for(const State& state) {
  if (steps_.empty()) buffers_ = state.model->buffers();
  if (auto footing = footing_of(state); !(footing == footing_)) {
    steps_.clear();
    footing_ = std::move(footing);
  }
  const auto shape = shape_of(state);
  if (const auto found = steps_.find(shape); found != steps_.end()) return found->second;
  if (steps_.size() == most_recordings) steps_.clear();
  Step& step = steps_[shape];
  step.batch = room_for(state.batch);
  return step;
}

at::Tensor CapturedSteps::run(State& state, const std::function<at::Tensor()>& step) {
  if (recorder_ == nullptr) return step();
  Step& kept = step_for(state);
  fill(kept.batch, state.batch);
  const auto given = std::exchange(state.batch, kept.batch);
  run_on(kept, state, step);
  state.batch = given;
  if (recorder_ != nullptr) return kept.mean_loss;
  steps_.clear();
  return step();  // a failed capture has done nothing
}

void CapturedSteps::run_on(Step& step, State& state, const std::function<at::Tensor()>& body) {
  const auto work = [&step, &state, body] {
    // Frees the previous step's autograd graph, which belongs to other streams.
    state.outputs = state.loss = at::Tensor();
    step.mean_loss = body().detach();
    state.outputs = state.outputs.detach();
    state.loss = state.loss.detach();
  };
  const bool recorded = step.recording != nullptr;
  if (!recorded && (step.done < warm_ups || state.optimizer->first_update_waits())) {
    warm_up(step, state, work);
    ++step.done;
    return;
  }
  if (!recorded) {
    record(step, state, work);
    if (recorder_ != nullptr) step.recording->replay();
  } else {
    RECORD_USER_SCOPE("replay");
    replay(step, state);
  }
}

/// Runs a step before its capture. Recordings keep the memory of a whole step each: if memory does
/// not suffice, they are destroyed and the step is repeated, unless the weights have changed
/// already.
void CapturedSteps::warm_up(Step& step, State& state, const std::function<void()>& work) {
  if (recordings() == 0) return recorder_->run(work);
  const auto batch = state.batch;
  const int64_t first_sample = state.first_sample;
  const auto versions = versions_of(state.optimizer->parameters());
  const auto generators = generator_states(state.device);
  std::vector<at::Tensor> buffers;
  for (const auto& buffer : buffers_) buffers.push_back(buffer.clone());
  try {
    return recorder_->run(work);
  } catch (const std::exception& error) {
    if (!is_out_of_memory(error) || versions_of(state.optimizer->parameters()) != versions) throw;
  }
  log::warn("cuda_graph: recorded steps are dropped to free memory for a step of another shape");
  state.batch = batch;
  state.first_sample = first_sample;
  drop_results(step, state);
  std::erase_if(steps_, [&](const auto& item) { return &item.second != &step; });
  recorder_->free_memory();
  for (size_t i = 0; i < buffers.size(); ++i) buffers_[i].copy_(buffers[i]);
  set_generator_states(state.device, generators);
  recorder_->run(work);
}

void CapturedSteps::record(Step& step, State& state, const std::function<void()>& work) {
  for (const auto& buffer : buffers_)
    if (out_of_reach(buffer, state)) step.counters.push_back(buffer);
  std::vector<at::Tensor> before;
  for (const auto& counter : step.counters) before.push_back(counter.clone());
  const auto batch = state.batch;
  const int64_t first_sample = state.first_sample;
  try {
    step.recording = recorder_->record([&step, &state, work] {
      work();
      keep_results(step, state);
    });
    for (size_t i = 0; i < before.size(); ++i)
      step.increments.push_back(step.counters[i] - before[i]);
  } catch (const std::exception& error) {
    state.batch = batch;
    state.first_sample = first_sample;
    for (size_t i = 0; i < before.size(); ++i) step.counters[i].copy_(before[i]);
    drop_results(step, state);
    if (required_ && hands_on_out_of_memory_ && is_out_of_memory(error))
      throw NotRecorded("to record a step, cuda_graph: true: " + std::string(error.what()));
    give_up(error.what());
  }
}

/// Keeps the results of a captured step. Called within the capture.
void CapturedSteps::keep_results(Step& step, const State& state) {
  step.outputs = state.outputs;
  step.loss = state.loss;
  step.gradients.clear();
  for (const auto& parameter : state.optimizer->parameters())
    step.gradients.push_back(parameter.grad());
}

/// Drops the results of a failed step: freeing its autograd graph frees all saved tensors.
void CapturedSteps::drop_results(Step& step, State& state) {
  state.outputs = state.loss = at::Tensor();
  step.mean_loss = step.outputs = step.loss = at::Tensor();
  step.gradients.clear();
  state.optimizer->zero_grad();
}

void CapturedSteps::replay(Step& step, State& state) {
  step.recording->replay();
  for (size_t i = 0; i < step.counters.size(); ++i) step.counters[i].add_(step.increments[i]);
  state.outputs = step.outputs;
  state.loss = step.loss;
  const auto parameters = state.optimizer->parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    parameters[i].mutable_grad() = step.gradients[i];
    parameters[i].unsafeGetTensorImpl()->bump_version();
  }
}

void CapturedSteps::give_up(const std::string& reason) {
  const auto line = "the step cannot be recorded: " + reason.substr(0, reason.find('\n'));
  if (required_) throw RunError("cuda_graph: true: " + line);
  log::warn("cuda_graph: auto: off: " + line);
  recorder_.reset();
}

void CapturedSteps::forget() {
  steps_.clear();
  if (recorder_ != nullptr) recorder_->free_memory();
}

size_t CapturedSteps::recordings() const {
  return static_cast<size_t>(std::ranges::count_if(
      steps_, [](const auto& item) { return item.second.recording != nullptr; }));
}

std::unique_ptr<CapturedSteps> captured_steps(std::string_view word, const Engine& engine,
                                              const State& state,
                                              std::shared_ptr<StepRecorder> recorder) {
  if (word == "false") return nullptr;
  const bool required = word == "true";
  if (state.device.is_cpu() && recorder == nullptr) {
    if (required) log::warn("cuda_graph: true has no effect: the CPU has no CUDA graphs");
    return nullptr;
  }
  const auto off = [&](const std::string& reason) {
    if (required) throw UserError("cuda_graph: true: steps cannot be replayed: " + reason);
    log::info("cuda_graph: off: " + reason);
    return nullptr;
  };
  if (const auto reason = prevents_graph_capture(engine, state.ranks.alone()); !reason.empty())
    return off(reason);
  if (recorder == nullptr) {
    try {
      auto* const open = reinterpret_cast<OpenStepRecorder*>(
          function_of_cuda_library("composer_step_recorder", "CUDA graphs need"));
      recorder.reset(open());
    } catch (const UserError& error) {
      return off(error.what());
    }
  }
  log::info("cuda_graph: on: steps are replayed after " + std::to_string(CapturedSteps::warm_ups) +
            " of their shape");
  return std::make_unique<CapturedSteps>(std::move(recorder), required);
}

}  // namespace composer

#include "composer/run/evaluator.h"

#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>

#include "base/process/interrupt.h"
#include "composer/run/feed.h"
#include "nn/state_dict.h"

namespace composer {
namespace {

/// Ranks ask each other so often whether one has received a signal: all have as many batches.
constexpr int64_t batches_between_signals = 8;

/// One sample of nothing in the shapes of a batch without any, for a rank that has to run the
/// network because others do.
RawBatch blank(RawBatch batch) {
  const auto fill = [](at::Tensor& tensor) {
    if (!tensor.defined()) return;
    auto sizes = tensor.sizes().vec();
    sizes[0] = 1;
    tensor = tensor.new_zeros(sizes);
  };
  fill(batch.images);
  for (auto* const tensor : batch.target.tensors()) fill(*tensor);
  return batch;
}

}  // namespace

Evaluator::Evaluator(State& state, Engine& engine, std::string set, std::shared_ptr<Loader> loader,
                     Time interval)
    : state_(state),
      engine_(engine),
      set_(std::move(set)),
      loader_(std::move(loader)),
      times_(interval) {}

bool Evaluator::due(bool epoch_end, bool last) const {
  if (!loader_ || evaluated_batch_ == state_.time.batch || interval().value == 0) return false;
  const auto& run_length = state_.run_length;
  // After an epoch's last batch: what epoch_end does to the weights is to be evaluated too.
  if (!epoch_end && state_.time.batch_in_epoch == run_length.batches_per_epoch) return false;
  auto last_batch = state_.time;
  if (epoch_end) {
    --last_batch.epoch;
    last_batch.batch_in_epoch = run_length.batches_per_epoch;
    last_batch.sample_in_epoch = run_length.samples_per_epoch;
  }
  return last || times_.due(run_length, last_batch, false) ||
         (epoch_end && times_.due(run_length, state_.time, true));
}

Evaluator::Metrics Evaluator::run(ConfusionMatrix* confusion) {
  if (!loader_) return {};
  RECORD_USER_SCOPE("evaluation");
  const at::NoGradGuard no_grad;
  const bool training = state_.model->is_training();
  const auto batch_before = std::exchange(state_.batch, {});
  const auto indices_before = std::exchange(state_.indices, {});
  const auto* const loader_before = std::exchange(state_.loader, loader_.get());
  state_.model->eval();
  state_.evaluation_set = set_;
  state_.eval_metrics.clear();
  engine_.run(Event::eval_start, state_);
  const auto metrics = state_.model->objective().metrics(state_.model->num_classes());
  loader_->start(0, 0);
  Feed feed(*loader_, state_.device, state_.model->objective());
  int64_t batches = 0;
  show_progress(Progress::Phase::evaluating, batches);
  bool stopped = false;
  for (int64_t taken = 0;; ++taken) {
    if (taken % batches_between_signals == 0 || state_.ranks.alone())
      stopped = state_.ranks.any(received_signal() != 0);
    if (stopped) break;
    const auto batch = feed.next();
    if (!batch) break;
    const bool empty = batch->samples() == 0;  // fewer samples than ranks
    if (empty && !state_.sharded_parameters) continue;
    state_.indices = batch->indices;
    state_.batch = normalized(empty ? blank(*batch) : *batch, loader_->normalization(), state_,
                              type_of_input());
    engine_.run(Event::eval_batch_start, state_, !empty);
    engine_.run(Event::eval_before_forward, state_, !empty);
    state_.outputs = state_.network().forward(state_.batch.input);
    engine_.run(Event::eval_after_forward, state_, !empty);
    if (!empty) metrics->update(state_.outputs, state_.batch.target);
    if (!empty && confusion != nullptr) confusion->add(state_.outputs, state_.batch.target.classes);
    feed.fetch_ahead();
    engine_.run(Event::eval_batch_end, state_, !empty);
    show_progress(Progress::Phase::evaluating, ++batches);
  }
  show_progress(Progress::Phase::evaluated, batches);
  Metrics values;
  if (!stopped) {
    metrics->sum(state_.ranks.of_samples(), state_.device);
    if (confusion != nullptr) confusion->sum(state_.ranks.of_samples(), state_.device);
    values = metrics->compute();
    for (const auto& [name, value] : values) {
      const auto metric = "metrics/" + set_ + "/" + name;
      state_.eval_metrics[metric] = value;
      state_.logger->log(metric, value);
    }
    evaluated_batch_ = state_.time.batch;
  }
  engine_.run(Event::eval_end, state_);
  state_.batch = batch_before;
  state_.indices = indices_before;
  state_.loader = loader_before;
  state_.model->train(training);
  return values;
}

StateDict Evaluator::state_dict() const {
  StateDict state;
  if (set_ != main_evaluation && evaluated_batch_ >= 0) state.values["batch"] = evaluated_batch_;
  const auto unit = interval().unit;
  if (times_.done_at() > 0 && (unit == TimeUnit::second || unit == TimeUnit::duration))
    state.values["seconds"] = times_.done_at();
  return state;
}

void Evaluator::load_state_dict(const StateDict& state) {
  if (const auto* batch = state.find<int64_t>("batch")) evaluated_batch_ = *batch;
  if (const auto* seconds = state.find<double>("seconds")) times_.done_at(*seconds);
}

at::ScalarType Evaluator::type_of_input() {
  if (!input_type_)
    input_type_ = input_type(engine_, state_, loader_->image_size(),
                             std::ssize(loader_->normalization().mean), Event::eval_batch_start,
                             Event::eval_before_forward);
  return *input_type_;
}

void Evaluator::show_progress(Progress::Phase phase, int64_t batches) {
  state_.logger->progress({phase, state_.time, batches, loader_->batches_per_epoch(), set_});
}

void Evaluator::predict(Loader& loader, const Receive& receive) {
  const at::NoGradGuard no_grad;
  state_.model->eval();
  engine_.run(Event::predict_start, state_);
  loader.start(0, 0);
  while (const auto batch = next_batch(loader)) {
    const bool empty = batch->samples() == 0;  // none of them can be read
    if (empty && !state_.sharded_parameters) continue;
    state_.batch = normalized((empty ? blank(*batch) : *batch).to(state_.device),
                              loader.normalization(), state_);
    engine_.run(Event::predict_batch_start, state_, !empty);
    engine_.run(Event::predict_before_forward, state_, !empty);
    state_.outputs = state_.network().forward(state_.batch.input);
    engine_.run(Event::predict_after_forward, state_, !empty);
    if (!empty) receive(state_.outputs.to(at::kCPU, at::kFloat), batch->target.classes);
    engine_.run(Event::predict_batch_end, state_, !empty);
  }
  engine_.run(Event::predict_end, state_);
}

}  // namespace composer

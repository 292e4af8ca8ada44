#include "composer/comparison/step_check.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include <limits>
#include <ranges>

#include "base/error.h"
#include "composer/loop/state.h"
#include "nn/device/device.h"
#include "nn/device/snapshot.h"
#include "nn/network/batch.h"
#include "nn/optimization/optimizer.h"

namespace composer {
namespace {

constexpr double weight_noise = 1.0 / 512;  ///< the rounding of bf16

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

/// The suffix of gradients' names in a batch's update; the first update is 0.
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

/// The noise of each gradient: norm(disturbed - exact) / norm(exact) * norm(recorded). Only the
/// recorded gradients include the changes of algorithms.
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

/// Adds the distances between the statistics to `lengths`.
void add_distances(const NamedTensors& moved, const NamedTensors& from,
                   std::vector<double>& lengths) {
  lengths.resize(from.size());
  for (size_t i = 0; i < from.size(); ++i)
    lengths[i] += norm_of(moved.at(i).second - from[i].second);
}

/// Multiplies each weight by a random number near 1.
void disturb(Model& model) {
  auto generator = at::detail::createCPUGenerator(/*seed_val=*/1);
  for (auto& parameter : model.parameters()) {
    const auto factors =
        at::empty(parameter.sizes(), at::kFloat).uniform_(-weight_noise, weight_noise, generator);
    parameter.mul_(factors.add_(1).to(parameter.device()));
  }
}

/// Recomputes the gradients of an update with the same random numbers.
NamedTensors computed_again(State& state, const UpdateStart& start, int64_t update) {
  const DrawsAgain draws(state.device, start.generators);
  put_back(start.statistics, state.model->named_buffers());
  state.recompute_gradients();
  return recorded_gradients(*state.model, update);
}

/// Adds an update and its noise to the record, and leaves the run unchanged. The last recomputation
/// is at the true weights, so that loss scaling finds the same overflows.
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

/// Passes on another loader's batches and keeps a copy.
class KeepingLoader : public Loader {
 public:
  explicit KeepingLoader(std::shared_ptr<Loader> loader) : loader_(std::move(loader)) {}

  int64_t batches_per_epoch() const override { return loader_->batches_per_epoch(); }
  int64_t samples_per_epoch() const override { return loader_->samples_per_epoch(); }
  ImageSize image_size() const override { return loader_->image_size(); }
  const Normalization& normalization() const override { return loader_->normalization(); }
  void start(int64_t epoch, int64_t batch, SizePlan plan) override {
    loader_->start(epoch, batch, std::move(plan));
  }
  void add_transform(SampleTransform transform) override {
    loader_->add_transform(std::move(transform));
  }
  std::optional<RawBatch> next() override {
    auto batch = loader_->next();
    kept_.push_back(batch);
    if (batch) kept_.back()->images = batch->images.clone();  // methods may write to the batch
    return batch;
  }

  /// The batches in order, with the ends of epochs.
  const std::vector<std::optional<RawBatch>>& kept() const { return kept_; }

 private:
  std::shared_ptr<Loader> loader_;
  std::vector<std::optional<RawBatch>> kept_;
};

/// Returns the batches that a KeepingLoader kept, which have all transforms applied; then nothing.
class ReplayLoader : public Loader {
 public:
  explicit ReplayLoader(std::shared_ptr<const KeepingLoader> kept) : kept_(std::move(kept)) {}

  int64_t batches_per_epoch() const override { return kept_->batches_per_epoch(); }
  int64_t samples_per_epoch() const override { return kept_->samples_per_epoch(); }
  ImageSize image_size() const override { return kept_->image_size(); }
  const Normalization& normalization() const override { return kept_->normalization(); }
  void start(int64_t, int64_t, SizePlan) override { next_ = 0; }
  void add_transform(SampleTransform) override {}
  std::optional<RawBatch> next() override {
    return next_ < kept_->kept().size() ? kept_->kept()[next_++] : std::nullopt;
  }

 private:
  std::shared_ptr<const KeepingLoader> kept_;
  size_t next_ = 0;
};

/// Removes everything that does not belong to a step.
TrainerParts bare(TrainerParts parts) {
  auto& options = parts.options;
  if (options.max_duration.unit == TimeUnit::second)
    throw UserError("max_duration: " + options.max_duration.str() +
                    " ends two runs at different steps, which cannot be compared then; give it in "
                    "ba or ep");
  options.run_dir.clear();
  options.autoresume = false;
  options.save_best.clear();
  options.on_nan = "ignore";
  parts.eval_loader = nullptr;
  parts.evaluators.clear();
  parts.callbacks.clear();
  parts.loggers.clear();
  parts.console = false;
  return parts;
}

void add(TrainerParts& parts, const std::shared_ptr<StepWitness>& witness) {
  parts.algorithms.insert(parts.algorithms.begin(),
                          {"step_witness", witness, subscriptions<StepWitness>()});
}

/// Trains; returns the signal that ended training, else 0.
int train(TrainerParts parts, StepCheck::Side& side) {
  Trainer trainer(std::move(parts));
  const auto summary = trainer.fit();
  side = {describe(trainer.state().device), trainer.state().precision};
  return summary.signal;
}

bool all_finite(const NamedTensors& tensors) {
  return std::ranges::all_of(tensors, [](const auto& named) {
    return named.second.isfinite().all().template item<bool>();
  });
}

std::vector<StepPair> pairs(const StepWitness& checked, const StepWitness& reference,
                            const StepCheck& check, size_t steps) {
  const auto overflowed = [](const StepRecord& record, const StepCheck::Side& side) {
    return side.precision == Precision::amp_fp16 && !all_finite(record.gradients);
  };
  std::vector<StepPair> pairs;
  for (size_t i = 0; i < steps; ++i) {
    const auto& one = checked.records()[i];
    const auto& other = reference.records()[i];
    pairs.push_back({one, other, reference.before(i),
                     overflowed(one, check.checked) || overflowed(other, check.reference)});
  }
  return pairs;
}

/// By precision, the finest first: loss, logits, gradients, weights, statistics, least_gradient and
/// noise.
constexpr std::pair<Precision, Tolerances> tolerances_by_precision[] = {
    {Precision::fp32, {1e-4, 1e-3, 0.1, 1e-3, 1e-3, 1e-3, 1e-2}},
    {Precision::tf32, {1e-2, 0.1, 0.1, 1e-3, 3e-2, 0.03, 1}},
    {Precision::amp_fp16, {1e-2, 0.1, 0.1, 1e-3, 3e-2, 0.03, 1}},
    {Precision::amp_bf16, {5e-2, 0.4, 0.3, 1e-3, 0.1, 0.1, 3}},
};

constexpr double infinite = std::numeric_limits<double>::infinity();
constexpr double float_rounding = 1.2e-7;  // a bit more than the two halves of an ulp

double length_of(const at::Tensor& tensor) { return tensor.to(at::kDouble).norm().item<double>(); }

/// error / of, with 0 / 0 = 0.
double share(double error, double of) {
  if (!std::isfinite(error) || !std::isfinite(of)) return infinite;
  return error <= 0 ? 0 : of > 0 ? error / of : infinite;
}

bool same_shape(const at::Tensor& a, const at::Tensor& b) {
  return a.defined() && b.defined() && a.sizes() == b.sizes();
}

double distance(const at::Tensor& a, const at::Tensor& b) {
  return same_shape(a, b) ? length_of(a.to(at::kDouble) - b) : infinite;
}

double root_mean_square(const NamedTensors& gradients) {
  double squares = 0, count = 0;
  for (const auto& [name, tensor] : gradients) {
    squares += std::pow(length_of(tensor), 2);
    count += static_cast<double>(tensor.numel());
  }
  return count > 0 ? std::sqrt(squares / count) : 0;
}

struct Error {
  std::string tensor;
  double value;
};
using Errors = std::vector<Error>;  ///< errors in the network's order

/// The error of each tensor. measure: (checked, reference, index in the reference) -> error. It is
/// infinite for a tensor that only one side has.
template <class Measure>
Errors compare(const NamedTensors& checked, const NamedTensors& reference, const Measure& measure) {
  std::map<std::string, at::Tensor> left(checked.begin(), checked.end());
  Errors errors;
  for (size_t i = 0; i < reference.size(); ++i) {
    const auto& [name, tensor] = reference[i];
    const auto found = left.extract(name);
    errors.push_back({name, found ? measure(found.mapped(), tensor, i) : infinite});
  }
  for (const auto& [name, tensor] : left) errors.push_back({name, infinite});
  return errors;
}

/// The tolerated noise of the tensor at that position; 0 where none was measured.
double noise_at(const std::vector<double>& lengths, size_t position, const Tolerances& tolerances) {
  return position < lengths.size() ? tolerances.noise * lengths[position] : 0;
}

Errors gradient_errors(const NamedTensors& checked, const NamedTensors& reference,
                       const std::vector<double>& noise, const Tolerances& tolerances) {
  const double floor = tolerances.least_gradient * root_mean_square(reference);
  return compare(checked, reference, [&](const at::Tensor& a, const at::Tensor& b, size_t i) {
    const double least = floor * std::sqrt(static_cast<double>(b.numel()));
    return share(distance(a, b) - noise_at(noise, i, tolerances), std::max(length_of(b), least));
  });
}

Errors update_errors(const NamedTensors& checked, const NamedTensors& reference,
                     const NamedTensors& before, const std::vector<double>& noise,
                     const Tolerances& tolerances) {
  return compare(checked, reference, [&](const at::Tensor& a, const at::Tensor& b, size_t i) {
    const double rounding = float_rounding * length_of(b);
    return share(distance(a, b) - rounding - noise_at(noise, i, tolerances),
                 distance(b, before.at(i).second));
  });
}

Errors errors_of(const std::string& what, const StepPair& step, const Tolerances& tolerances) {
  const auto& [checked, reference, before, overflowed] = step;
  if (what == "loss")
    return {{"", share(std::abs(checked.loss - reference.loss), std::abs(reference.loss))}};
  if (what == "logits")
    return {{"", share(distance(checked.logits, reference.logits), length_of(reference.logits))}};
  if (what == "statistics")
    return update_errors(checked.after.statistics, reference.after.statistics, before.statistics,
                         reference.statistics_noise, tolerances);
  if (overflowed) return {};
  if (what == "gradients")
    return gradient_errors(checked.gradients, reference.gradients, reference.gradient_noise,
                           tolerances);
  return update_errors(checked.after.weights, reference.after.weights, before.weights, {},
                       tolerances);
}

/// The first tensor beyond the tolerance in the network's order; backward: in reverse order.
std::string first_beyond(const Errors& errors, double tolerance, bool backward) {
  const auto beyond = [&](const Error& error) { return error.value > tolerance; };
  if (backward) {
    const auto found = std::find_if(errors.rbegin(), errors.rend(), beyond);
    return found == errors.rend() ? "" : found->tensor;
  }
  const auto found = std::ranges::find_if(errors, beyond);
  return found == errors.end() ? "" : found->tensor;
}

Deviation deviation(const std::string& what, double Tolerances::*tolerance,
                    const std::vector<StepPair>& steps, const Tolerances& tolerances) {
  Deviation found;
  found.what = what, found.tolerance = tolerances.*tolerance;
  bool compared = false;
  for (const auto& step : steps) {
    const auto errors = errors_of(what, step, tolerances);
    const auto worst = std::ranges::max_element(errors, {}, &Error::value);
    found.by_step.push_back(errors.empty() ? 0 : worst->value);
    if (errors.empty()) continue;
    if (!std::exchange(compared, true) || worst->value > found.worst())
      found.tensor = worst->tensor, found.step = std::ssize(found.by_step) - 1;
    if (found.first.empty())
      found.first = first_beyond(errors, found.tolerance, what == "gradients");
  }
  return found;
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

Tolerances tolerances_of(Precision one, Precision other) {
  return std::ranges::find_if(
             tolerances_by_precision | std::views::reverse,
             [&](const auto& row) { return row.first == one || row.first == other; })
      ->second;
}

std::vector<Deviation> deviations(const std::vector<StepPair>& steps,
                                  const Tolerances& tolerances) {
  return {deviation("loss", &Tolerances::loss, steps, tolerances),
          deviation("logits", &Tolerances::logits, steps, tolerances),
          deviation("gradients", &Tolerances::gradients, steps, tolerances),
          deviation("weights", &Tolerances::weights, steps, tolerances),
          deviation("statistics", &Tolerances::statistics, steps, tolerances)};
}

bool StepCheck::within() const { return std::ranges::all_of(deviations, &Deviation::within); }

StepCheck check_steps(const CheckedSide& checked, const CheckedSide& reference,
                      const StepCheckOptions& options) {
  const auto scope = [](const CheckedSide& side) { return side.scope ? side.scope() : nullptr; };
  StepCheck check;
  const auto theirs = std::make_shared<StepWitness>(options.steps, options.free_steps, nullptr);
  std::shared_ptr<KeepingLoader> batches;
  {
    const auto kept = scope(reference);
    auto parts = bare(reference.parts());
    check.batch_size = parts.options.train_batch_size;
    batches = std::make_shared<KeepingLoader>(std::move(parts.train_loader));
    parts.train_loader = batches;
    add(parts, theirs);
    check.signal = train(std::move(parts), check.reference);
  }
  const auto ours = std::make_shared<StepWitness>(options.steps, options.free_steps, theirs.get());
  if (check.signal == 0) {
    const auto kept = scope(checked);
    auto parts = bare(checked.parts());
    parts.train_loader = std::make_shared<ReplayLoader>(batches);
    add(parts, ours);
    check.signal = train(std::move(parts), check.checked);
  }
  if (check.signal != 0) return check;

  const auto recorded = std::min(ours->records().size(), theirs->records().size());
  if (recorded == 0) throw RunError("there is no step left to train: nothing was compared");
  const auto compared = std::min(recorded, static_cast<size_t>(options.steps));
  const auto steps = pairs(*ours, *theirs, check, compared);
  check.overflowed = std::ranges::count_if(steps, &StepPair::overflowed);
  if (check.overflowed == std::ssize(steps))
    throw RunError("the gradients overflowed in each of " + std::to_string(steps.size()) +
                   " steps, while loss scaling looks for its scale: give more --steps");
  check.deviations =
      deviations(steps, tolerances_of(check.checked.precision, check.reference.precision));
  for (auto i = compared; i < recorded; ++i)
    check.free_losses.emplace_back(ours->records()[i].loss, theirs->records()[i].loss);
  return check;
}

}  // namespace composer

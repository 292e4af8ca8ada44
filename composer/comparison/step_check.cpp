#include "composer/comparison/step_check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <ranges>
#include <utility>
#include <vector>

#include "base/error.h"
#include "nn/device/device.h"
#include "nn/network/batch.h"

namespace composer {
namespace {

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

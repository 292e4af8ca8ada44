#include "composer/comparison/step_check.h"

#include <algorithm>

#include "base/error.h"
#include "composer/comparison/replay.h"
#include "nn/device/device.h"

namespace composer {
namespace {

/// What is not of the step itself stays out.
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

/// Returns the signal that ended it, else 0.
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

}  // namespace

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

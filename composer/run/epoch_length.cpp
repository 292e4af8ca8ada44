#include "composer/run/epoch_length.h"

#include <cmath>

#include "base/error.h"
#include "base/log.h"
#include "composer/run/build.h"
#include "nn/optimization/scheduler.h"

namespace composer {
namespace {

/// key: of the set, for messages. divided: whose samples options.split divides.
EpochLength open_length(const Dataset& set, LoaderOptions options, bool training,
                        const std::string& key, const Dataset& divided) {
  const auto* const dataset = &set;
  options.class_names = dataset->class_names();
  options.makes_files = false;
  EpochLength length;
  length.image = dataset->image_size();
  length.class_names = options.class_names;
  try {
    const auto loader = dataset->open(options);
    length.samples = loader->samples_per_epoch(), length.batches = loader->batches_per_epoch();
    length.image = loader->image_size();
    length.digest = loader->digest();
    return length;
  } catch (const UserError& missing) {
    const auto published = divided.published_samples();
    if (!published) throw UserError(key + ": " + missing.what());
    const bool told = !training && options.split;  // of the set that training has, just before
    if (!told)
      log::warn(key + ": the data were not read, and the set's published size stands for them: " +
                missing.what());
    length.note = " (of the set's published " + std::to_string(*published) +
                  "; the data were not read" + (told ? "" : ": " + std::string(missing.what())) +
                  ")";
    const int64_t size = options.batch_size;
    const int64_t evaluated =
        options.split ? std::llround(options.split->val * static_cast<double>(*published)) : 0;
    const int64_t samples = training        ? *published - evaluated
                            : options.split ? evaluated
                                            : *published;
    length.batches = dataset->drop_last() ? samples / size : (samples + size - 1) / size;
    length.samples = dataset->drop_last() ? length.batches * size : samples;
    if (options.subset_num_batches && *options.subset_num_batches < length.batches) {
      length.batches = *options.subset_num_batches;
      length.samples = length.batches * size;
    }
    if (length.batches == 0)
      throw UserError(std::string(training ? "train" : "eval") +
                      "_batch_size: " + std::to_string(size) + " is more than the " +
                      std::to_string(samples) + " samples of " + key);
    return length;
  }
}

}  // namespace

EpochLength epoch_length(const Recipe& recipe, const RunContext& context, bool training) {
  const auto options = loader_options(recipe.options, context, training);
  const bool train_key = training || options.split;
  const auto& component = train_key ? recipe.train_dataset : recipe.val_dataset;
  const auto set = build_dataset(recipe, training);
  return open_length(
      *set, options, training,
      path_of(train_key ? ChoiceKey::train_dataset : ChoiceKey::val_dataset, component->name()),
      train_key == training ? *set : *build_dataset(recipe, true));
}

EpochLength epoch_length(const Recipe& recipe, const RunContext& context,
                         const NamedEvaluation& evaluator) {
  const auto set = evaluator.dataset->build();
  return open_length(*set, loader_options(recipe.options, context, evaluator.options), false,
                     "evaluators." + evaluator.name + ".dataset." + evaluator.dataset->name(),
                     *set);
}

RunLength planned_run_length(const EpochLength& length, const TrainerOptions& options) {
  RunLength run_length{length.batches, length.samples, options.train_batch_size,
                       scale_duration(options.max_duration, options.scale_schedule_ratio)};
  run_length.planned = run_length.max_duration;
  return run_length;
}

}  // namespace composer

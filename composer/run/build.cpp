#include "composer/run/build.h"

#include "base/log.h"
#include "composer/run/rank_threads.h"
#include "nn/device/device.h"
#include "nn/optimization/scheduler.h"

namespace composer {
namespace {

/// key: the set's path, for messages. divided: the set whose samples options.split divides.
EpochLength open_length(const Dataset& dataset, LoaderOptions options, bool training,
                        const std::string& key, const Dataset& divided) {
  options.class_names = dataset.class_names();
  options.makes_files = false;
  EpochLength length;
  length.image = dataset.image_size();
  length.class_names = options.class_names;
  try {
    const auto loader = dataset.open(options);
    length.samples = loader->samples_per_epoch(), length.batches = loader->batches_per_epoch();
    length.image = loader->image_size();
    length.digest = loader->digest();
    return length;
  } catch (const UserError& missing) {
    const auto published = divided.published_samples();
    if (!published) throw UserError(key + ": " + missing.what());
    const bool told = !training && options.split;  // training has warned of the same set before
    if (!told)
      log::warn(key + ": the data were not read; the set's published size is used instead: " +
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
    length.batches = dataset.drop_last() ? samples / size : (samples + size - 1) / size;
    length.samples = dataset.drop_last() ? length.batches * size : samples;
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

std::shared_ptr<Model> build_model(const Recipe& recipe) {
  seed_generator(static_cast<uint64_t>(recipe.options.seed));
  auto model = constructed(*recipe.model, "model");
  model->set_title(path_of(ChoiceKey::model, recipe.model->name()));
  const auto& options = recipe.options;
  model->set_objective(
      make_objective(options.loss, options.class_weights.numbers, model->num_classes()));
  return model;
}

std::shared_ptr<Dataset> build_dataset(const Recipe& recipe, const ComponentOf<Dataset>& set) {
  auto dataset = set.build();
  dataset->reach(recipe.options.remote);
  return dataset;
}

std::shared_ptr<Dataset> build_dataset(const Recipe& recipe, bool training) {
  auto dataset = build_dataset(recipe, training ? *recipe.train_dataset : *recipe.val_dataset);
  if (recipe.options.split.val > 0 && !dataset->can_split())
    throw UserError("split: this set cannot be split; leave split out and give a val_dataset");
  return dataset;
}

LoaderOptions loader_options(const TrainerOptions& options, const RunContext& context,
                             bool training) {
  LoaderOptions loader = options.dataloader;
  const auto& environment = context.environment;
  const int64_t of_image =
      environment.size % options.spatial_ranks == 0 ? options.spatial_ranks : 1;
  loader.rank = environment.rank / of_image, loader.world_size = environment.size / of_image;
  loader.tells = environment.rank == 0;
  loader.batch_size = training ? options.train_batch_size
                               : options.eval_batch_size.value_or(options.train_batch_size);
  loader.seed = static_cast<uint64_t>(options.seed);
  loader.num_workers = rank_threads(options, context).loader;
  loader.pin_memory = false;
  loader.split.reset(), loader.subset_num_batches.reset();
  const auto subset = training ? options.train_subset_num_batches : options.eval_subset_num_batches;
  if (subset > 0) loader.subset_num_batches = subset;
  if (options.split.val > 0)
    loader.split = Split{.val = options.split.val,
                         .seed = static_cast<uint64_t>(options.split.seed),
                         .evaluation = !training};
  return loader;
}

LoaderOptions loader_options(const TrainerOptions& options, const RunContext& context,
                             const EvaluatorOptions& evaluator) {
  auto loader = loader_options(options, context, /*training=*/false);
  loader.split.reset();
  if (!evaluator.subset_num_batches) return loader;
  loader.subset_num_batches.reset();
  if (*evaluator.subset_num_batches > 0) loader.subset_num_batches = evaluator.subset_num_batches;
  return loader;
}

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
  const auto set = build_dataset(recipe, *evaluator.dataset);
  return open_length(*set, loader_options(recipe.options, context, evaluator.options), false,
                     "evaluators." + evaluator.name + ".dataset." + evaluator.dataset->name(),
                     *set);
}

RunLength planned_run_length(int64_t batches, int64_t samples, const TrainerOptions& options) {
  RunLength length{batches, samples, options.train_batch_size, options.max_duration};
  if (options.max_duration.value > 0)
    length.max_duration = scale_duration(options.max_duration, options.scale_schedule_ratio);
  length.planned = length.max_duration;
  return length;
}

}  // namespace composer

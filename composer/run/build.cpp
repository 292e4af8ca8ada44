#include "composer/run/build.h"

#include "composer/run/rank_threads.h"
#include "nn/device/device.h"

namespace composer {

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

}  // namespace composer

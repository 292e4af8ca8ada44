// Trains by a recipe made in C++. The run is as one from a file: its folder has an hparams.yaml,
// and `composer eval` and `composer predict` take what it saved.
//
//   recipe [RUN_DIR]
#include "composer/recipe/recipe.h"

#include <iostream>

#include "algorithms/blurpool.h"
#include "algorithms/label_smoothing.h"
#include "cli/main.h"
#include "composer/run/assemble.h"
#include "composer/run/trainer.h"
#include "data/datasets/shapes.h"
#include "models/resnet_cifar.h"
#include "nn/optimization/optimizers.h"
#include "nn/optimization/schedulers.h"

using namespace composer;

int main(int argc, char** argv) try {
  add_builtin_components();
  const Registry& known = registry();

  Recipe recipe;
  recipe.model = known.models.make<ResNetCifar>("resnet_cifar", {.model_name = "resnet_20"});
  recipe.train_dataset = known.datasets.make<ShapesDataset>("shapes", {.samples = 256});
  recipe.val_dataset = known.datasets.make<ShapesDataset>(
      "shapes", {.is_train = false, .drop_last = false, .shuffle = false, .samples = 128});
  recipe.optimizer = known.optimizers.make<Sgd>("sgd", {.lr = 0.05, .momentum = 0.9});
  recipe.schedulers = {known.schedulers.make<ScheduledBy<CosineDecay>>("cosine_decay", {})};
  recipe.algorithms = {
      known.algorithms.make<BlurPool>("blurpool", {}),
      known.algorithms.make<LabelSmoothing>("label_smoothing", {.smoothing = 0.05})};
  recipe.options.train_batch_size = 64;
  recipe.options.eval_batch_size = 64;
  recipe.options.max_duration = {2, TimeUnit::epoch};
  recipe.options.run_dir = argc > 1 ? argv[1] : "runs";
  recipe.options.run_name = "from_cpp";
  recipe.options.dataloader.num_workers = 2;

  // Checked as a whole, as a file would be: ranges, and algorithms that exclude each other.
  Trainer trainer(assemble_training(checked(recipe)));
  const Summary summary = trainer.fit();
  std::cout << summary.status << ", accuracy " << summary.metrics.at("metrics/eval/Accuracy")
            << ", in " << trainer.folder().path().string() << '\n';
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}

// Trains without a recipe: the parts of the run are made here, so each may be a class that no
// registry knows.
//
//   trainer [RUN_DIR]
#include "composer/run/trainer.h"

#include <iostream>

#include "algorithms/blurpool.h"
#include "algorithms/label_smoothing.h"
#include "composer/run/assemble.h"
#include "data/datasets/shapes.h"
#include "models/resnet_cifar.h"
#include "nn/device/cpu_allocator.h"
#include "nn/device/device.h"
#include "nn/optimization/optimizers.h"
#include "nn/optimization/schedulers.h"

using namespace composer;

int main(int argc, char** argv) try {
  install_cpu_allocator();

  TrainerParts parts;
  TrainerOptions& options = parts.options;
  options.train_batch_size = 64;
  options.max_duration = {2, TimeUnit::epoch};
  options.run_dir = argc > 1 ? argv[1] : "runs";
  options.run_name = "by_hand";
  options.dataloader.num_workers = 2;

  seed_generator(static_cast<uint64_t>(options.seed));
  parts.model = std::make_shared<ResNetCifar>(ResNetCifar::Params{.model_name = "resnet_20"});
  const ShapesDataset images({.samples = 256});
  const ShapesDataset unseen(
      {.is_train = false, .drop_last = false, .shuffle = false, .samples = 128});
  parts.train_loader = images.open(loader_options(options, parts.context, /*training=*/true));
  parts.eval_loader = unseen.open(loader_options(options, parts.context, /*training=*/false));
  parts.optimizer = std::make_shared<Sgd>(Sgd::Params{.lr = 0.05, .momentum = 0.9});
  parts.schedulers = {std::make_shared<ScheduledBy<CosineDecay>>(CosineDecay{})};

  join(parts);

  Trainer trainer(std::move(parts));
  trainer.add<BlurPool>("blurpool", BlurPool::Params{});
  trainer.add<LabelSmoothing>("label_smoothing", LabelSmoothing::Params{.smoothing = 0.05});
  const Summary summary = trainer.fit();
  std::cout << summary.status << " after " << summary.time.batch << " batches\n";
  for (const auto& [name, value] : trainer.evaluate()) std::cout << name << ' ' << value << '\n';
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}

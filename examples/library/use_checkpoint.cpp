// Looks at a checkpoint that trainer.cpp left, evaluates it, and classifies image files.
//
//   use_checkpoint runs/by_hand/checkpoints/latest [IMAGE ...]
#include <iostream>

#include "algorithms/blurpool.h"
#include "base/error.h"
#include "composer/checkpoint/checkpoint.h"
#include "composer/run/assemble.h"
#include "composer/run/trainer.h"
#include "data/datasets/shapes.h"
#include "models/resnet_cifar.h"

using namespace composer;

void show(const std::string& path) {
  const Checkpoint checkpoint = load_checkpoint(path);
  int64_t numbers = 0;
  for (const auto& [name, tensor] : checkpoint.model) numbers += tensor.numel();
  std::cout << "epoch " << checkpoint.time.epoch << ", batch " << checkpoint.time.batch << ", "
            << checkpoint.model.size() << " tensors of " << numbers << " numbers, fc.weight "
            << checkpoint.model.at("fc.weight").sizes() << '\n';
}

int main(int argc, char** argv) try {
  if (argc < 2) throw UserError("use_checkpoint: give a checkpoint folder");
  show(argv[1]);

  const ShapesDataset unseen(
      {.is_train = false, .drop_last = false, .shuffle = false, .samples = 128});
  TrainerParts parts;
  parts.options.load_path = argv[1];
  parts.options.load_weights_only = true;
  parts.options.run_dir.clear();
  parts.options.eval_batch_size = 64;
  const auto reading = loader_options(parts.options, parts.context, /*training=*/false);
  parts.model = std::make_shared<ResNetCifar>(ResNetCifar::Params{.model_name = "resnet_20"});
  parts.eval_loader = unseen.open(reading);

  // The network is what it was in training: the same surgery comes before the weights.
  Trainer trainer(std::move(parts));
  trainer.add<BlurPool>("blurpool", BlurPool::Params{});
  for (const auto& [name, value] : trainer.evaluate()) std::cout << name << ' ' << value << '\n';

  const std::vector<std::string> files(argv + 2, argv + argc);
  if (files.empty()) return 0;
  const auto names = unseen.class_names();
  const auto loader = unseen.open_files(files, reading);
  trainer.predict(*loader, [&](const at::Tensor& logits, const at::Tensor& samples) {
    const auto best = logits.argmax(1);
    for (int64_t i = 0; i < best.numel(); ++i) {
      const auto sample = static_cast<size_t>(samples[i].item<int64_t>());
      const auto guess = static_cast<size_t>(best[i].item<int64_t>());
      std::cout << files.at(sample) << ' ' << names.at(guess) << '\n';
    }
  });
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}

// A training loop of one's own, without the Trainer: the loader, layers, optimizer and the function
// forms of two algorithms. Leaves the weights as a file that --load_path and Python's safetensors
// read.
//
//   own_loop [FILE.safetensors]
#include <ATen/core/grad_mode.h>

#include <iostream>

#include "algorithms/blurpool.h"
#include "algorithms/label_smoothing.h"
#include "composer/checkpoint/weights.h"
#include "composer/run/assemble.h"
#include "data/datasets/shapes.h"
#include "models/resnet_cifar.h"
#include "nn/device/cpu_allocator.h"
#include "nn/device/device.h"
#include "nn/network/metrics.h"
#include "nn/network/normalize.h"
#include "nn/optimization/optimizers.h"

using namespace composer;

at::Tensor prepared(const RawBatch& batch, const Loader& loader) {
  return normalize(batch.images, loader.normalization(), at::MemoryFormat::Contiguous);
}

int main(int argc, char** argv) try {
  install_cpu_allocator();
  seed_generator(1);
  ResNetCifar model({.model_name = "resnet_20"});
  for (const auto& line : lines(apply_blurpool(model, {}))) std::cout << line << '\n';

  Sgd optimizer({.lr = 0.05, .momentum = 0.9});
  optimizer.attach(model);
  const auto loader = ShapesDataset({.samples = 256}).open({.batch_size = 64, .num_workers = 2});
  loader->start(0, 0);
  model.train();
  for (int epoch = 0; epoch < 2; ++epoch) {
    while (const auto batch = loader->next()) {
      const auto logits = model.forward(prepared(*batch, *loader));
      const auto target = smooth_labels(logits, batch->target.classes, 0.1);
      const auto loss = -(target * at::log_softmax(logits, 1)).sum(1).mean();
      optimizer.zero_grad();
      loss.backward();
      const at::NoGradGuard no_grad;
      optimizer.step();
      std::cout << "loss " << loss.item<double>() << '\n';
    }
  }

  const at::NoGradGuard no_grad;
  model.eval();
  const ShapesDataset unseen(
      {.is_train = false, .drop_last = false, .shuffle = false, .samples = 128});
  const auto unseen_loader = unseen.open({.batch_size = 64});
  unseen_loader->start(0, 0);
  ClassificationMetrics metrics(model.num_classes());
  while (const auto batch = unseen_loader->next())
    metrics.update(model.forward(prepared(*batch, *unseen_loader)), batch->target);
  for (const auto& [name, value] : metrics.compute()) std::cout << name << ' ' << value << '\n';

  if (argc > 1) write_safetensors(argv[1], model_tensors(model));
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}

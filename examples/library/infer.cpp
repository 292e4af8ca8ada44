// Classifies image files by a network that `composer export` wrote, without a trainer.
//
//   infer FOLDER IMAGE ...
#include <iostream>

#include "base/error.h"
#include "data/datasets/dataset_params.h"
#include "inference/network_folder.h"
#include "inference/runtime.h"
#include "nn/network/batch.h"

using namespace composer;

int main(int argc, char** argv) try {
  if (argc < 3) throw UserError("infer: give an exported folder and images");
  const std::vector<std::string> files(argv + 2, argv + argc);
  LoaderOptions reading;
  reading.batch_size = 32;

  const auto network = read_network(argv[1]);
  const Runtime runtime(network);
  reading.resize_filter = network.resize_filter;
  const auto loader = open_file_loader(files, network.preparation, reading);
  loader->start(0, 0);
  while (const auto batch = loader->next()) {
    const auto best = runtime.logits(batch->images).argmax(1);
    for (int64_t i = 0; i < best.numel(); ++i) {
      const auto file = static_cast<size_t>(batch->target.classes[i].item<int64_t>());
      const auto guess = static_cast<size_t>(best[i].item<int64_t>());
      const auto& names = network.class_names;
      std::cout << files.at(file) << ' '
                << (guess < names.size() ? names[guess] : std::to_string(guess)) << '\n';
    }
  }
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}

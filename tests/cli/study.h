// What tests of ablate, sweep and lr-range share.
#pragma once

#include <catch2/catch.hpp>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "program.h"
#include "tests/temporary_folder.h"

namespace composer {

/// The lines of a recipe that trains a small network on noise; `more` has its lengths and sizes.
inline std::string study_recipe(const std::string& more) {
  return R"(model: mnist_classifier
train_dataset: {synthetic: {height: 28, width: 28, channels: 1, num_classes: 10, samples: 64}}
val_dataset: {synthetic: {height: 28, width: 28, channels: 1, num_classes: 10, samples: 64, is_train: false, shuffle: false}}
optimizer: {sgd: {lr: 0.05, momentum: 0.9}}
eval_batch_size: 32
device: cpu
dataloader: {num_workers: 0}
)" + more;
}

/// A folder with recipe.yaml. While it lives, processes compute with one thread: several would only
/// wait for each other on images this small.
struct StudyFolderWith : TemporaryFolder {
  explicit StudyFolderWith(const std::string& recipe) {
    write("recipe.yaml", recipe);
    setenv("OMP_NUM_THREADS", "1", /*overwrite=*/0);
  }
  ~StudyFolderWith() {
    if (!was_set) unsetenv("OMP_NUM_THREADS");
  }
  StudyFolderWith(const StudyFolderWith&) = delete;
  StudyFolderWith& operator=(const StudyFolderWith&) = delete;

  const bool was_set = std::getenv("OMP_NUM_THREADS") != nullptr;
};

inline nlohmann::json json_in(const Outcome& outcome) {
  INFO(outcome.errors);
  INFO(outcome.output);
  return nlohmann::json::parse(outcome.output);
}

}  // namespace composer

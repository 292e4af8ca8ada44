
#include <catch2/catch.hpp>

#include "composer/recipe/recipe.h"

namespace composer::recipe_changes_test {

namespace {

using Lines = std::vector<std::string>;

const std::string recipe = R"(model: {resnet_cifar: {model_name: resnet_20}}
train_dataset: {shapes: {samples: 64}}
val_dataset: {shapes: {samples: 32}}
optimizer: {sgd: {lr: 0.1, momentum: 0.9}}
schedulers: {multi_step: {milestones: [1ep, 2ep]}}
algorithms: {channels_last: {}, ema: {half_life: 2ba}}
callbacks: {lr_monitor: {}}
max_duration: 2ep
seed: 17
device: cpu
dataloader: {num_workers: 2, on_bad_sample: error}
run_dir: runs
save_interval: 1ep
autoresume: false
)";

Lines after(const std::string& old, const std::string& changed) {
  auto other = recipe;
  other.replace(other.find(old), old.size(), changed);
  return recipe_changes(recipe, other);
}

}  // namespace

TEST_CASE("what differs in the network alone is told", "[recipe]") {
  auto other = recipe;
  other.replace(other.find("resnet_20"), 9, "resnet_56").replace(other.find("0.1"), 3, "0.2");
  CHECK(model_changes(recipe, other) ==
        Lines{"model.resnet_cifar.model_name: the checkpoint's was resnet_20, this run's is "
              "resnet_56"});
}

TEST_CASE("a dump keeps what its run started from", "[recipe]") {
  const std::string begun = "seed: 1\nload_path: /w.pth\nload_weights_only: true\n";
  CHECK(with_start_of("load_path: \"\"\nseed: 2\nload_weights_only: false\n", begun) ==
        "load_path: /w.pth\nseed: 2\nload_weights_only: true\n");
  CHECK(with_start_of("seed: 2\n", "") == "seed: 2\n");
  CHECK(with_start_of("", begun) == "");
  CHECK(with_start_of("", "") == "");
}

TEST_CASE("what a resumed run does otherwise is told key by key", "[recipe]") {
  CHECK(recipe_changes(recipe, recipe).empty());
  CHECK(after("lr: 0.1", "lr: 0.01") ==
        Lines{"optimizer.sgd.lr: the checkpoint's was 0.1, this run's is 0.01"});
  CHECK(after("2ep]", "3ep]") == Lines{"schedulers.multi_step.milestones: the checkpoint's was "
                                       "[1ep, 2ep], this run's is [1ep, 3ep]"});
  CHECK(after("max_duration: 2ep", "max_duration: 3ep") ==
        Lines{"max_duration: the checkpoint's was 2ep, this run's is 3ep"});
  CHECK(after("on_bad_sample: error", "on_bad_sample: skip") ==
        Lines{"dataloader.on_bad_sample: the checkpoint's was error, this run's is skip"});
  CHECK(after("{sgd: {lr: 0.1, momentum: 0.9}}", "{adam: {lr: 0.1}}") ==
        Lines{"optimizer.sgd: the checkpoint's run had it, this one does not",
              "optimizer.adam: the checkpoint's run did not have it"});
  CHECK(after("{channels_last: {}, ema: {half_life: 2ba}}", "[]") ==
        Lines{"algorithms.channels_last: the checkpoint's run had it, this one does not",
              "algorithms.ema: the checkpoint's run had it, this one does not"});
}

TEST_CASE("keys that leave the weights alone are not told, nor those that a program did not know",
          "[recipe]") {
  CHECK(after("val_dataset: {shapes: {samples: 32}}", "val_dataset:").empty());
  CHECK(after("lr_monitor: {}", "speed_monitor: {}").empty());
  CHECK(after("seed: 17", "seed: 18").empty());
  CHECK(after("device: cpu", "device: gpu").empty());
  CHECK(after("num_workers: 2", "num_workers: 4").empty());
  CHECK(after("run_dir: runs", "run_dir: elsewhere").empty());
  CHECK(after("save_interval: 1ep", "save_interval: 5ba").empty());
  CHECK(after("autoresume: false", "autoresume: true").empty());
  CHECK(after("momentum: 0.9", "momentum: 0.9, nesterov: false").empty());
  CHECK(recipe_changes("", recipe).empty());
  CHECK(recipe_changes("[1, 2", recipe).empty());
}

}  // namespace composer::recipe_changes_test

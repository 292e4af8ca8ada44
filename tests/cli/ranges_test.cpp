// The names under which a run's time is found.
#include <catch2/catch.hpp>

#include "composer/run/assemble.h"
#include "everything.h"
#include "nn/profiling/timer.h"
#include "tests/temporary_folder.h"

namespace composer::ranges_test {

namespace {

const std::string recipe = R"(
model: {resnet_cifar: {model_name: resnet_20}}
train_dataset: {shapes: {samples: 48}}
val_dataset: {shapes: {samples: 16}}
optimizer: {sgd: {lr: 0.05}}
algorithms: {label_smoothing: {}, mixup: {}}
callbacks: [lr_monitor, speed_monitor]
train_batch_size: 16
eval_batch_size: 16
max_duration: 2ep
dataloader: {num_workers: 2}
progress_bar: false
device: cpu
)";

Recipe resolved(const TemporaryFolder& folder) {
  static Registry known;
  static const bool filled = [] {
    add_everything(known);
    return true;
  }();
  (void)filled;
  return resolve(
      {"r.yaml", recipe},
      {"--run_dir", folder.path() / "runs", "--train_dataset.shapes.ffcv_dir",
       folder.path() / "drawn", "--val_dataset.shapes.ffcv_dir", folder.path() / "drawn"},
      known);
}

}  // namespace

TEST_CASE("a run's ranges are seen by name, each in its thread", "[ranges]") {
  const TemporaryFolder folder;
  const Timer timer;
  {
    auto parts = assemble_training(resolved(folder));
    parts.console = false;
    Trainer(std::move(parts)).fit();
  }
  const auto totals = timer.totals();
  for (const char* name :
       {"dataloader", "forward", "backward", "optimizer", "evaluation", "checkpoint", "before_loss",
        "batch_end", "label_smoothing", "mixup", "lr_monitor", "speed_monitor"}) {
    INFO(name);
    REQUIRE(totals.here.contains(name));
    CHECK(totals.here.at(name).seconds > 0);
    CHECK(totals.here.at(name).self_seconds <= totals.here.at(name).seconds);
    CHECK_FALSE(totals.elsewhere.contains(name));
  }
  CHECK(totals.here.at("backward").calls == 6);
  CHECK(totals.here.at("evaluation").calls == 2);
  CHECK(totals.here.at("evaluation").self_seconds < totals.here.at("evaluation").seconds);
  CHECK_FALSE(at::hasThreadLocalCallbacks());  // speed_monitor's ended with the run
}

}  // namespace composer::ranges_test

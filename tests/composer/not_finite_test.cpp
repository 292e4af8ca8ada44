#include <catch2/catch.hpp>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "composer/checkpoint/checkpoint.h"
#include "tiny_run.h"

namespace composer::not_finite_test {

using Catch::Matchers::Contains;
namespace fs = std::filesystem;

namespace {

/// Makes the loss infinite from a batch on.
class Explode : public Algorithm {
 public:
  explicit Explode(int64_t batch) : batch_(batch) {}
  void before_backward(State& state) override {
    if (state.time.batch >= batch_)
      state.loss = state.loss * std::numeric_limits<float>::infinity();
  }

 private:
  int64_t batch_;
};

TrainerParts parts_in(const TemporaryFolder& folder) {
  auto parts = tiny_parts();
  parts.options.run_dir = folder.path().string();
  parts.options.run_name = "run";
  parts.options.log_interval = {1, TimeUnit::batch};
  parts.options.save_num_checkpoints_to_keep = 1;
  parts.options.max_duration = {5, TimeUnit::epoch};
  return parts;
}

nlohmann::json summary_in(const fs::path& run) {
  std::ifstream file(run / "summary.json");
  return nlohmann::json::parse(file);
}

}  // namespace

TEST_CASE("a loss that is not finite ends the run and leaves finite weights", "[nan]") {
  const TemporaryFolder folder;
  Trainer trainer(parts_in(folder));
  trainer.add<Explode>("explode", 9);  // in the third epoch of four batches
  CHECK_THROWS_WITH(trainer.fit(), Contains("the loss is infinite at batch 10 (epoch 3)") &&
                                       Contains("lower learning rate"));
  CHECK(summary_in(folder / "run")["status"] == "failed");
  const auto checkpoint = load_checkpoint(folder / "run" / "checkpoints" / "latest");
  CHECK(checkpoint.time.batch == 8);
  for (const auto& [name, tensor] : checkpoint.model) CHECK(tensor.isfinite().all().item<bool>());
}

TEST_CASE("on the CPU the batch of a bad loss is the last one, however seldom values are written",
          "[nan]") {
  const TemporaryFolder folder;
  auto parts = parts_in(folder);
  parts.options.log_interval = {5, TimeUnit::epoch};
  Trainer trainer(std::move(parts));
  trainer.add<Explode>("explode", 5);  // the second of four batches
  CHECK_THROWS_WITH(trainer.fit(), Contains("the loss is infinite at batch 6 (epoch 2)"));
  CHECK(trainer.state().time.batch == 6);
}

TEST_CASE("on_nan: ignore goes on, but saves no weights that are not finite", "[nan]") {
  const TemporaryFolder folder;
  auto parts = parts_in(folder);
  parts.options.on_nan = "ignore";
  Trainer trainer(std::move(parts));
  trainer.add<Explode>("explode", 9);
  CHECK(trainer.fit().status == "completed");
  const auto checkpoint = load_checkpoint(folder / "run" / "checkpoints" / "latest");
  CHECK(checkpoint.time.batch == 8);
  for (const auto& [name, tensor] : checkpoint.model) CHECK(tensor.isfinite().all().item<bool>());
}

TEST_CASE("a bad loss at the run's end is not overlooked", "[nan]") {
  const TemporaryFolder folder;
  auto parts = parts_in(folder);
  parts.options.log_interval = {1, TimeUnit::epoch};
  Trainer trainer(std::move(parts));
  trainer.add<Explode>("explode", 19);  // the last of twenty batches
  CHECK_THROWS_WITH(trainer.fit(), Contains("at batch 20"));
}

TEST_CASE("values that are not finite are written one way", "[nan]") {
  const TemporaryFolder folder;
  auto parts = parts_in(folder);
  parts.options.on_nan = "ignore";
  Trainer trainer(std::move(parts));
  trainer.add<Explode>("explode", 0);
  trainer.fit();
  const auto summary = summary_in(folder / "run");
  CHECK(summary["metrics"]["loss/train"] == "NaN");
  CHECK(summary["metrics"]["metrics/eval/CrossEntropy"] == "NaN");
  std::ifstream metrics(folder / "run" / "metrics.jsonl");
  std::string line;
  REQUIRE(std::getline(metrics, line));
  CHECK(nlohmann::json::parse(line)["loss/train"] == "Infinity");
}

TEST_CASE("a bad loss at the end of a run that keeps nothing is not overlooked", "[nan]") {
  auto parts = tiny_parts();
  parts.options.log_interval = {1, TimeUnit::epoch};
  Trainer trainer(std::move(parts));
  trainer.add<Explode>("explode", 6);
  CHECK_THROWS_WITH(trainer.fit(), Contains("the loss is infinite at batch 7"));
}

}  // namespace composer::not_finite_test

// The settings that end-to-end tests are run again with, and a run for all of them.
//   COMPOSER_TEST_SETTINGS=tests/settings/bf16.txt test_cli "[train]"
#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "program.h"
#include "tests/temporary_folder.h"

namespace composer::settings_test {

using Catch::Matchers::Contains;

namespace {

/// 36 batches in three epochs, whose weights and average are saved after each.
const std::string recipe = R"(model: {mnist_classifier: {num_classes: 10}}
train_dataset: {synthetic: {height: 28, width: 28, channels: 1, num_classes: 10, samples: 96}}
val_dataset: {synthetic: {height: 28, width: 28, channels: 1, num_classes: 10, samples: 32, is_train: false}}
optimizer: {sgd: {lr: 0.05, momentum: 0.9}}
schedulers: {cosine_decay_with_warmup: {t_warmup: 3ba}}
algorithms: {label_smoothing: , cutout: , ema: {half_life: 4ba}}
train_batch_size: 8
eval_batch_size: 16
max_duration: 3ep
log_interval: 1ba
progress_bar: false
device: cpu
run_name: run
)";

}  // namespace

TEST_CASE("settings: a file's lines", "[settings]") {
  const TemporaryFolder folder;
  folder.write("good.txt", "# why\n\nOMP_NUM_THREADS=1\n--precision amp_bf16\nkill_every 10\n");
  const auto settings = read_settings(folder / "good.txt");
  CHECK(settings.options == decltype(settings.options){{"--precision", "amp_bf16"}});
  CHECK(settings.environment == decltype(settings.environment){{"OMP_NUM_THREADS", "1"}});
  CHECK(settings.kill_every == 10);
  for (const char* bad : {"precision amp_bf16", "--precision", "kill_every 0", "=1"}) {
    folder.write("bad.txt", bad);
    CHECK_THROWS_WITH(read_settings(folder / "bad.txt"), Contains(bad));
  }
  CHECK_THROWS_WITH(read_settings(folder / "none.txt"), Contains("cannot be read"));
}

TEST_CASE("settings: what a test gives itself stays, and so does what runs no network",
          "[settings]") {
  Settings settings;
  settings.options = {{"--dataloader.num_workers", "0"}, {"--grad_accum", "2"}};
  CHECK(with_options(settings, split("train -f r.yaml --num_workers 3")) ==
        split("train -f r.yaml --num_workers 3 --grad_accum 2"));
  CHECK(with_options(settings, split("eval --load_path p")) ==
        split("eval --load_path p --dataloader.num_workers 0 --grad_accum 2"));
  for (const char* line : {"train --plan", "train -f r.yaml --dump", "data info f.beton"})
    CHECK(with_options(settings, split(line)) == split(line));
}

TEST_CASE("a run under any settings logs each batch once, and ends whole", "[cli][train][kept]") {
  const TemporaryFolder folder;
  folder.write("r.yaml", recipe);
  const auto done = run(folder.path(), split("train -f r.yaml"));
  INFO(done.errors);
  REQUIRE(done.status == 0);
  CHECK(killed::batches_saved(folder / "runs/run") == 36);
  std::ifstream metrics(folder / "runs/run/metrics.jsonl");
  int64_t batches = 0, evaluations = 0;
  for (std::string line; std::getline(metrics, line);) {
    const auto record = nlohmann::json::parse(line);
    evaluations += record.at("event") == "eval" ? 1 : 0;
    if (record.at("event") != "batch") continue;
    CHECK(record.at("batch") == ++batches);
    CHECK(std::isfinite(record.at("loss/train").get<double>()));
  }
  CHECK(batches == 36);
  CHECK(evaluations == 3);
  const bool resumed = done.errors.find("resumed from") != std::string::npos;
  CHECK(resumed == (current_settings().kill_every > 0));
}

TEST_CASE("a resumed run that ends otherwise than one left alone is told", "[settings]") {
  const TemporaryFolder folder;
  for (const char* run : {"one", "other"}) {
    std::filesystem::create_directories(folder / run / "checkpoints/latest");
    folder.write(std::string(run) + "/checkpoints/latest/model.safetensors", "bytes");
  }
  CHECK(killed::difference(folder / "one", folder / "other").empty());
  folder.write("other/checkpoints/latest/model.safetensors", "other bytes");
  CHECK(killed::difference(folder / "one", folder / "other") == " model.safetensors");
  CHECK(killed::run_folder("/f", "device: cpu\nrun: runs/a\n") == "/f/runs/a");
  CHECK(killed::run_folder("/f", "device: cpu\nrun: runs/").empty());
}

}  // namespace composer::settings_test

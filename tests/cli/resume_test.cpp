// Killed and resumed, a run ends in the same bytes as one that was left alone.
#include <catch2/catch.hpp>
#include <csignal>
#include <thread>

#include "program.h"
#include "tests/composer/metric_points.h"
#include "tests/temporary_folder.h"

namespace composer::resume_test {

using Catch::Contains;
namespace fs = std::filesystem;

namespace {

/// All six algorithms of the quickstart and random augmentation; 8 batches an epoch.
const std::string recipe = R"(model:
  resnet_cifar:
    model_name: resnet_20
train_dataset:
  shapes:
    samples: 128
val_dataset:
  shapes:
    is_train: false
    shuffle: false
    drop_last: false
    samples: 32
optimizer:
  decoupled_sgdw:
    lr: 0.1
    momentum: 0.9
    weight_decay: 5.0e-4
schedulers:
  cosine_decay_with_warmup:
    t_warmup: 3ba
algorithms:
  channels_last:
  blurpool:
  label_smoothing:
  progressive_resizing:
    mode: crop
    delay_fraction: 0.1
    finetune_fraction: 0.1
train_batch_size: 16
eval_batch_size: 32
max_duration: 3ep
grad_accum: 2
precision: amp_bf16
device: cpu
save_interval: 1ba
dataloader:
  num_workers: 2
)";

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void wait_for(const fs::path& path) {
  for (int i = 0; i < 6000 && !fs::exists(path); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

}  // namespace

TEST_CASE("kill -9 and --autoresume give the uninterrupted run's bytes",
          "[cli][resume][train][slow]") {
  const TemporaryFolder folder;
  folder.write("recipe.yaml", recipe);
  const auto train = split("train -f recipe.yaml --autoresume true --run_name");
  REQUIRE(run(folder.path(), train + std::vector<std::string>{"whole"}).status == 0);

  // Mid-epoch, at an epoch's end, and right after one.
  for (const std::string stop : {"ep0-ba3", "ep1-ba8", "ep1-ba9"}) {
    INFO(stop);
    const auto name = "killed-at-" + stop;
    const Process process(folder.path(), train + std::vector<std::string>{name});
    wait_for(folder / ("runs/" + name + "/checkpoints/" + stop + "/manifest.json"));
    process.signal(SIGKILL);
    CHECK(process.wait().status == 128 + SIGKILL);
    const auto resumed = run(folder.path(), train + std::vector<std::string>{name});
    INFO(resumed.errors);
    REQUIRE(resumed.status == 0);
    CHECK(resumed.errors.find("resumed from") != std::string::npos);
    for (const char* file :
         {"model-00001-of-00001.safetensors", "optimizer-00001-of-00001.safetensors"})
      CHECK(bytes_of(folder / ("runs/" + name + "/checkpoints/ep3-ba24/" + file)) ==
            bytes_of(folder / (std::string("runs/whole/checkpoints/ep3-ba24/") + file)));
  }
}

TEST_CASE("a run that has no checkpoint to go on from tells that it begins anew", "[cli][resume]") {
  const TemporaryFolder folder;
  folder.write("recipe.yaml", recipe);
  const auto words =
      split("train -f recipe.yaml --autoresume true --run_name a --max_duration 1ba");
  const auto first = run(folder.path(), words);
  REQUIRE(first.status == 0);
  CHECK_THAT(first.errors, !Contains("anew"));
  fs::remove_all(folder / "runs/a/checkpoints");
  CHECK_THAT(
      run(folder.path(), words).errors,
      Contains("runs/a/checkpoints has no checkpoint to go on from: the run begins anew, and "
               "runs/a/metrics.jsonl is written anew"));
}

TEST_CASE("a limit of files' sizes is told as a full disk is", "[cli][train]") {
  const TemporaryFolder folder;
  folder.write("recipe.yaml", recipe);
  const auto outcome =
      run(folder.path(), {"-c", "ulimit -f 100; exec " PROGRAM " train -f recipe.yaml"}, "/bin/sh");
  CHECK(outcome.status == 1);
  CHECK_THAT(outcome.errors, Contains("cannot be written: File too large"));
}

TEST_CASE("kill -9, twice, leaves each logged number once, as if nothing had happened",
          "[cli][resume][train][slow]") {
  const TemporaryFolder folder;
  folder.write("recipe.yaml", recipe);
  const auto train = split(
      "train -f recipe.yaml --autoresume true --log_interval 1ba --loggers tensorboard csv "
      "--save_interval 3ba --run_name");
  REQUIRE(run(folder.path(), train + std::vector<std::string>{"whole"}).status == 0);
  for (const std::string batches : {"3", "18"}) {
    const Process process(folder.path(), train + std::vector<std::string>{"killed"});
    const std::string epoch = batches == "3" ? "0" : "2";
    wait_for(folder / ("runs/killed/checkpoints/ep" + epoch + "-ba" + batches + "/manifest.json"));
    process.signal(SIGKILL);
    CHECK(process.wait().status == 128 + SIGKILL);
  }
  REQUIRE(run(folder.path(), train + std::vector<std::string>{"killed"}).status == 0);

  const auto points = points_of_jsonl(folder / "runs/killed");
  CHECK(points.count({"loss/train", 24}) == 1);
  CHECK(points_of_events(folder / "runs/killed") == points);
  if (const auto read = points_of_tensorboard(folder / "runs/killed")) CHECK(*read == points);
  const auto whole = points_of_jsonl(folder / "runs/whole");
  for (const char* tag : {"loss/train", "lr", "metrics/eval/CrossEntropy"})
    for (int64_t batch = 1; batch <= 24; ++batch) {
      CAPTURE(tag, batch);
      const auto at = [&](const Points& all) { return all.equal_range({tag, batch}); };
      const auto [begin, end] = at(points);
      const auto [whole_begin, whole_end] = at(whole);
      CHECK(std::equal(begin, end, whole_begin, whole_end));
    }
}

TEST_CASE("signals that ask for the end save and exit with 128 and their number",
          "[cli][resume][slow]") {
  const TemporaryFolder folder;
  folder.write("recipe.yaml", recipe);
  const auto hangup = std::signal(SIGHUP, SIG_DFL);  // ignored under nohup, and children keep that
  for (const auto& [number, status] :
       {std::pair{SIGINT, 130}, {SIGTERM, 143}, {SIGUSR1, 138}, {SIGHUP, 129}}) {
    const auto name = std::to_string(status);
    const Process process(
        folder.path(),
        split("train -f recipe.yaml --save_interval 1ep --max_duration 100ep --run_name " + name));
    wait_for(folder / ("runs/" + name + "/checkpoints/latest"));
    process.signal(number);
    const auto outcome = process.wait();
    INFO(outcome.errors);
    CHECK(outcome.status == status);
    CHECK(outcome.errors.find("--autoresume true") != std::string::npos);
    CHECK(bytes_of(folder / ("runs/" + name + "/summary.json")).find("interrupted") !=
          std::string::npos);
  }
  std::signal(SIGHUP, hangup);
}

TEST_CASE("a second program in a run's folder is refused, and the run stays one", "[cli][resume]") {
  const TemporaryFolder folder;
  folder.write("recipe.yaml", recipe);
  const auto train = split(
      "train -f recipe.yaml --autoresume true --run_name run --max_duration 100ep --algorithms "
      "none "
      "--num_workers 0");
  const Process first(folder.path(), train);
  wait_for(folder / "runs/run/checkpoints/latest");
  const auto hparams = bytes_of(folder / "runs/run/hparams.yaml");
  const auto second = run(folder.path(), train + split("--lr 0.01"));
  INFO(second.errors);
  CHECK(second.status == 2);
  CHECK(second.errors.find("the run folder runs/run is in use by process " +
                           std::to_string(first.id()) + " on ") != std::string::npos);
  CHECK(bytes_of(folder / "runs/run/hparams.yaml") == hparams);
  first.signal(SIGTERM);
  CHECK(first.wait().status == 128 + SIGTERM);
  CHECK_FALSE(fs::exists(folder / "runs/run/.lock"));
}

TEST_CASE("a resumed run says what it does otherwise than its checkpoint's",
          "[cli][resume][slow]") {
  const TemporaryFolder folder;
  folder.write("recipe.yaml", recipe);
  const auto train = split(
      "train -f recipe.yaml --autoresume true --run_name run --algorithms none --num_workers 0 "
      "--save_interval 1ep --max_duration");
  REQUIRE(run(folder.path(), train + split("1ep")).status == 0);
  const auto path = folder / "runs/run/checkpoints/ep1-ba8/manifest.json";
  auto manifest = bytes_of(path);
  const std::string device = R"("device": "cpu")";
  REQUIRE(manifest.find(device) != std::string::npos);
  manifest.replace(manifest.find(device), device.size(), R"("device": "cuda")");
  std::ofstream(path, std::ios::binary) << manifest;
  const auto resumed = run(folder.path(), train + split("2ep --lr 0.01 --progress_bar false"));
  INFO(resumed.errors);
  CHECK(resumed.status == 0);
  for (const char* line :
       {"optimizer.decoupled_sgdw.lr: the checkpoint's was 0.1, this run's is 0.01",
        "max_duration: the checkpoint's was 1ep, this run's is 2ep",
        "was written on device cuda, this is cpu: the run goes on, but not bit by bit"})
    CHECK(resumed.errors.find(line) != std::string::npos);
  CHECK(resumed.errors.find("progress_bar") == std::string::npos);
}

}  // namespace composer::resume_test

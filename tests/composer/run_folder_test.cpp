// One process at a time in a run folder, and what a run leaves there when the disk is full or no
// checkpoint can be used.
#include "base/files/run_folder.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "base/host_name.h"
#include "base/remote/remote_path.h"
#include "composer/checkpoint/checkpoint_folder.h"
#include "tests/base/child_process.h"
#include "tests/base/largest_file.h"
#include "tests/composer/terminal.h"
#include "tests/composer/tiny_run.h"

namespace composer::run_folder_test {

using Catch::Contains;
namespace fs = std::filesystem;

namespace {

/// Calls `action` when a batch has ended, after logging 200 values with long names.
class EachBatch : public Callback {
 public:
  explicit EachBatch(std::function<void(int64_t batch)> action) : action_(std::move(action)) {}
  void batch_end(const State& state, Logger& logger, RunControl&) override {
    for (int i = 0; i < 200; ++i) logger.log("a value with a long name/" + std::to_string(i), 0.5);
    action_(state.time.batch);
  }

 private:
  std::function<void(int64_t batch)> action_;
};

TrainerParts parts_in(const TemporaryFolder& folder, bool autoresume = false) {
  auto parts = tiny_parts();
  parts.options.run_dir = folder.path().string();
  parts.options.run_name = "run";
  parts.options.autoresume = autoresume;
  parts.options.log_interval = {1, TimeUnit::batch};
  parts.recipe = "# " + std::string(100'000, '-') + "\nmodel: x\n";
  return parts;
}

std::string content(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::string status_in(const fs::path& folder) {
  return nlohmann::json::parse(content(folder / "summary.json")).at("status");
}

/// What stands in the folder beside the names that the contract knows.
std::vector<std::string> strangers_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const auto name = entry.path().filename().string();
    if (name.starts_with(".") || name.find(".partial") != std::string::npos) names.push_back(name);
  }
  return names;
}

}  // namespace

TEST_CASE("a run folder belongs to one process, until that ends in whatever way", "[run_folder]") {
  const TemporaryFolder folder;
  const RunFolder run(folder.path() / "runs", "run", true);
  ChildProcess holder([&] { return run.claim(); });
  CHECK_THROWS_AS(run.claim(), UserError);
  CHECK_THROWS_WITH(
      run.claim(),
      Catch::Matches("run_name: the run folder .*/runs/run is in use by process " +
                     std::to_string(holder.id()) + " on " + host_name() +
                     " since 20..-..-.. ..:..:..; wait for it, or give another --run_name"));
  holder.kill();
  CHECK(run.claim() != nullptr);
  CHECK_FALSE(fs::exists(run.path()));
  {
    const auto lock = run.claim();
    CHECK_THROWS_WITH(run.claim(), Contains("is in use by process " + std::to_string(::getpid())));
    struct stat status {};
    REQUIRE(::stat((run.path() / ".lock").c_str(), &status) == 0);
    if (status.st_blocks * 512 < 64 << 10) WARN("this file system keeps no room behind a file");
    lock->free_room();
    REQUIRE(::stat((run.path() / ".lock").c_str(), &status) == 0);
    CHECK(status.st_blocks * 512 < 64 << 10);
    run.write_recipe("seed: 1\n");
  }
  CHECK(content(run.path() / "hparams.yaml") == "seed: 1\n");
  CHECK_FALSE(fs::exists(run.path() / ".lock"));
  CHECK(RunFolder(folder.path() / "runs", "run", false).claim() != nullptr);  // nothing is trained
  folder.write("runs/run/metrics.jsonl", "{}\n");
  CHECK_THROWS_WITH(RunFolder(folder.path() / "runs", "run", false),
                    Contains("exists already; give --autoresume true to go on with it or, without "
                             "a checkpoint, begin it, or another --run_name"));
}

TEST_CASE("what is no path of this machine is no folder to write in", "[run_folder]") {
  for (const std::string right :
       {"", "runs", "/data/runs", "./~/runs", "~other/runs", "cost$/runs"})
    CHECK(local_folder_problem(right).empty());
  for (const std::string remote : {"s3://bucket/runs", "https://host/runs", "gs://bucket/runs"})
    CHECK(local_folder_problem(remote) == "must be a folder of this machine, not '" + remote + "'");
  for (const std::string folder : {"$USER", "$USER/runs", "/scratch/$USER/runs", "/scratch/$USER"})
    CHECK(local_folder_problem(folder) ==
          "'" + folder +
              "': only a shell puts a variable's value in the place of $USER; give the path");
  const char* const home = std::getenv("HOME");
  CHECK(local_folder_problem("~/runs") ==
        "'~/runs': only a shell puts the home folder in the place of ~; give " +
            (home == nullptr ? "its path" : "'" + std::string(home) + "/runs'"));
}

TEST_CASE("a run in a folder that is in use changes nothing there", "[run_folder]") {
  const TemporaryFolder folder;
  Trainer(parts_in(folder, true)).fit();
  const auto path = folder / "run";
  const auto metrics = content(path / "metrics.jsonl"), recipe = content(path / "hparams.yaml");
  const ChildProcess holder([&] { return RunFolder(folder.path().string(), "run", true).claim(); });
  auto parts = parts_in(folder, true);
  parts.recipe = "model: y\n";
  parts.options.max_duration = {3, TimeUnit::epoch};
  CHECK_THROWS_WITH(Trainer(std::move(parts)).fit(), Contains("is in use by process"));
  CHECK(content(path / "metrics.jsonl") == metrics);
  CHECK(content(path / "hparams.yaml") == recipe);
  CHECK(fs::read_symlink(path / "checkpoints/latest") == "ep2-ba8");
}

TEST_CASE("a run none of whose checkpoints is whole is left as it was", "[run_folder]") {
  const TemporaryFolder folder;
  Trainer(parts_in(folder, true)).fit();
  const auto path = folder / "run";
  const auto metrics = content(path / "metrics.jsonl");
  for (const char* name : {"ep1-ba4", "ep2-ba8"})
    fs::resize_file(path / "checkpoints" / name / "model-00001-of-00001.safetensors", 100);
  CHECK_THROWS_WITH(Trainer(parts_in(folder, true)).fit(), Contains("no checkpoint in"));
  CHECK(content(path / "metrics.jsonl") == metrics);
  CHECK(fs::exists(path / "checkpoints/ep2-ba8"));
}

TEST_CASE("a disk too full for a checkpoint leaves the one before, and a summary", "[run_folder]") {
  const TemporaryFolder folder;
  Trainer trainer(parts_in(folder));
  std::optional<LargestFile> limit;
  const auto latest = folder / "run/checkpoints/latest";
  trainer.add<EachBatch>("fill", [&](int64_t batch) {
    if (batch != 5) return;
    while (!fs::exists(latest)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    limit.emplace(90'000);  // less than a manifest with this recipe
  });
  CHECK_THROWS_WITH(trainer.fit(), Contains("manifest.json: cannot be written: File too large"));
  limit.reset();
  const auto path = folder / "run";
  CHECK(status_in(path) == "failed");
  CHECK(strangers_in(path).empty());
  CHECK_FALSE(fs::exists(path / "checkpoints/ep2-ba8"));
  CHECK(fs::read_symlink(path / "checkpoints/latest") == "ep1-ba4");
  CHECK(newest_checkpoint(path / "checkpoints") == path / "checkpoints/ep1-ba4");
  CHECK(Trainer(parts_in(folder, true)).fit().status == "completed");
}

TEST_CASE("a disk too full for metrics ends no run, and what is missing is told", "[run_folder]") {
  const TemporaryFolder folder;
  auto parts = parts_in(folder);
  parts.recipe = "model: x\n";
  Trainer trainer(std::move(parts));
  std::optional<LargestFile> limit;
  trainer.add<EachBatch>("fill", [&](int64_t) {
    if (!limit) limit.emplace(20'000);
  });
  const auto log = standard_error_of([&] { CHECK(trainer.fit().status == "completed"); });
  limit.reset();
  CHECK_THAT(log, Contains("metrics.jsonl: cannot be written: File too large"));
  CHECK_THAT(log, Contains("records are missing"));
  CHECK(strangers_in(folder / "run").empty());
  CHECK(content(folder / "run/metrics.jsonl").ends_with("}\n"));
}

TEST_CASE("what a full disk did not take of metrics follows once there is room", "[run_folder]") {
  const TemporaryFolder folder;
  auto parts = parts_in(folder);
  parts.recipe = "model: x\n";
  Trainer trainer(std::move(parts));
  std::optional<LargestFile> limit;
  trainer.add<EachBatch>("fill", [&](int64_t batch) {
    if (batch == 1) limit.emplace(20'000);
    if (batch == 8) limit.reset();
  });
  const auto log = standard_error_of([&] { trainer.fit(); });
  CHECK_THAT(log, Contains("metrics.jsonl: cannot be written") && !Contains("are missing"));
  std::vector<int64_t> batches;
  std::istringstream lines(content(folder / "run/metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const auto record = nlohmann::json::parse(line);
    if (record.at("event") == "batch") batches.push_back(record.at("batch"));
  }
  CHECK(batches == std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7, 8});
}

}  // namespace composer::run_folder_test

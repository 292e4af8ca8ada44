#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/cli/look.h"
#include "tests/temporary_folder.h"

namespace composer::request_test {

using Catch::Contains;
namespace fs = std::filesystem;

TEST_CASE("a request without a run or a name says what is meant", "[cli][slow]") {
  const TemporaryFolder folder;
  fs::create_directories(folder / "runs/first");
  folder.write("runs/first/hparams.yaml", "");
  const auto refused = [&](const std::string& words, const std::string& reason) {
    CAPTURE(words);
    const auto outcome = look(folder.path(), split(words));
    CHECK(outcome.status == 2);
    CHECK_THAT(outcome.errors, Contains(reason));
  };
  refused("request runs/first", "There are: checkpoint, stop, trace");
  refused("request stop", "which run? composer request RUN_FOLDER stop");
  refused("request runs/first stop --wiat=3", "'--wiat' is not expected; did you mean '--wait'?");
  refused("request stop runs/first", "the run comes first: composer request runs/first stop");
  refused("request first stop", "first: is no run folder; did you mean runs/first?");
  refused("request runs/fist/ stop", "did you mean runs/first?");
  refused("request none stop", "none: is no run folder; that is <run_dir>/<run_name>");
  refused("request runs stop", "runs: is no run's folder, but has those of first");
  refused("trace now runs", "runs: is no run's folder, but has those of first");
  refused("request runs/first stop --wiat 3", "'--wiat' is not expected; did you mean '--wait'?");
  refused("request runs/first stop 3", "'3' is not expected");
  refused("request runs/first stop", "runs/first: no run is going on there");
}

TEST_CASE("a running program saves and stops when another asks for it", "[cli]") {
  const TemporaryFolder folder;
  const Process training(
      folder.path(),
      split("train --run_dir runs --run_name run --train_dataset.shapes.samples 64 "
            "--val_dataset.shapes.samples 64 --train_batch_size 16 --max_duration 100000ep "
            "--eval_interval 0 --save_interval 0 --precision fp32 --num_workers 1"));
  const auto ask = [&](const std::string& words) {
    return run(folder.path(), split("request runs/run " + words));
  };
  auto saved = ask("checkpoint --wait 60");
  for (int i = 0; i < 600 && saved.status == 2; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    saved = ask("checkpoint --wait 60");
  }
  INFO(saved.errors);
  CHECK(saved.status == 0);
  CHECK_THAT(saved.errors, Contains("runs/run: saved as checkpoint ep"));
  CHECK(fs::exists(folder / "runs/run/checkpoints/latest"));

  const auto typo = ask("stpo");
  CHECK(typo.status == 2);
  CHECK_THAT(typo.errors, Contains("there is no request 'stpo'") && Contains("stop"));

  const auto stopped = ask("stop --wait 60");
  INFO(stopped.errors);
  CHECK(stopped.status == 0);
  const auto ended = training.wait();
  INFO(ended.errors);
  CHECK(ended.status == 0);
  CHECK_THAT(ended.errors, Contains("stopped: another process asked for it"));
  std::ifstream file(folder / "runs/run/summary.json");
  CHECK(nlohmann::json::parse(file).at("status") == "completed");
  CHECK_FALSE(fs::exists(folder / "runs/run/.requests"));

  const auto late = ask("stop --wait 60");
  CHECK(late.status == 2);
  CHECK_THAT(late.errors, Contains("runs/run: no run is going on there"));
}

}  // namespace composer::request_test

#include "analysis/comparison.h"

#include <catch2/catch.hpp>

#include "base/terminal.h"
#include "tests/analysis/run_files.h"

namespace composer::comparison_test {
namespace {

using Catch::Contains;
using Words = std::vector<std::string>;

/// "-" where a run has no such key.
Words values_in(const RecipeDifference& difference) {
  Words values;
  for (const auto& value : difference.values) values.push_back(value.value_or("-"));
  return values;
}

const RecipeDifference* find(const std::vector<RecipeDifference>& all, const std::string& key) {
  const auto found = std::ranges::find(all, key, &RecipeDifference::key);
  return found == all.end() ? nullptr : &*found;
}

TEST_CASE("recipes differ in settings, and in components that some lack", "[recipe_difference]") {
  const TemporaryFolder folder;
  std::vector<Run> runs;
  for (const char* recipe :
       {"optimizer: {sgd: {lr: 0.1, momentum: 0.9}}\nalgorithms: {blurpool: {blur_first: true, "
        "min_channels: 16}}\nseed: 1\nrun_name: a\n",
        "optimizer: {sgd: {lr: 0.2, momentum: 0.9}}\nalgorithms: []\nseed: 1\nrun_name: b\n",
        "optimizer: {adamw: {lr: 0.01}}\nalgorithms: {blurpool: {blur_first: false, "
        "min_channels: 16}}\nseed: 1\nrun_name: c\n"}) {
    const RunFiles files(folder, "run" + std::to_string(runs.size()));
    files.write("hparams.yaml", recipe);
    runs.push_back(read_run(files.path));
  }
  const auto all = recipe_differences(runs);
  REQUIRE(find(all, "optimizer.sgd") != nullptr);
  CHECK(find(all, "optimizer.sgd")->settings == "momentum 0.9");
  CHECK(values_in(*find(all, "optimizer.sgd")) == Words{"on", "on", "-"});
  REQUIRE(find(all, "optimizer.sgd.lr") != nullptr);
  CHECK(values_in(*find(all, "optimizer.sgd.lr")) == Words{"0.1", "0.2", "-"});
  REQUIRE(find(all, "optimizer.adamw") != nullptr);
  CHECK(find(all, "optimizer.adamw")->settings == "lr 0.01");
  REQUIRE(find(all, "algorithms.blurpool") != nullptr);
  CHECK(values_in(*find(all, "algorithms.blurpool")) == Words{"on", "-", "on"});
  REQUIRE(find(all, "algorithms.blurpool.blur_first") != nullptr);
  CHECK(all.size() == 5);
  CHECK(recipe_differences({runs[0], runs[0]}).empty());
}

TEST_CASE("callbacks of every run are no difference, their settings may be",
          "[recipe_difference]") {
  const TemporaryFolder folder;
  std::vector<Run> runs;
  for (const char* recipe :
       {"callbacks: {speed_monitor: {window_size: 100}}\n",
        "callbacks: {lr_monitor: {}, image_monitor: {num_images: 4, interval: 0ba}}\n"}) {
    const RunFiles files(folder, "run" + std::to_string(runs.size()));
    files.write("hparams.yaml", recipe);
    runs.push_back(read_run(files.path));
  }
  const auto all = recipe_differences(runs);
  CHECK(find(all, "callbacks.speed_monitor") == nullptr);
  CHECK(find(all, "callbacks.image_monitor") == nullptr);
  CHECK(find(all, "callbacks.image_monitor.interval") == nullptr);
  REQUIRE(find(all, "callbacks.image_monitor.num_images") != nullptr);
  CHECK(values_in(*find(all, "callbacks.image_monitor.num_images")) == Words{"16", "4"});
}

TEST_CASE("training metrics are means over epochs, in the first one so far", "[comparison]") {
  const TemporaryFolder folder;
  const RunFiles files(folder, "run", 0);
  const auto batch = [](int number, double accuracy) {
    return RunFiles::line("batch", number, {{"metrics/train/Accuracy", accuracy}});
  };
  const auto outcome = [&](const std::string& log) {
    files.write("metrics.jsonl", log);
    return outcome_of(read_run(files.path)).metrics.at("metrics/train/Accuracy");
  };
  const auto first = batch(1, 0.0625) + batch(2, 0.5);
  CHECK(outcome(first).last == 0.5);
  CHECK_FALSE(outcome(first).best);
  const auto second =
      first + RunFiles::line("epoch", 2, {{"metrics/train/Accuracy", 0.375}}) + batch(3, 0.875);
  CHECK(outcome(second).last == 0.375);
  CHECK(outcome(second).best == 0.375);
  CHECK(outcome(second).best_batch == 2);

  const RunFiles other(folder, "other");
  files.write("metrics.jsonl", first);
  const auto comparison = compared({read_run(files.path), read_run(other.path)});
  const auto json = json_of(comparison).at("runs").at(0).at("metrics");
  CHECK(json.at("metrics/train/Accuracy").at("best").is_null());
  CHECK(json.at("metrics/train/Accuracy").at("best_batch").is_null());
}

TEST_CASE("a comparison says what runs came to", "[comparison]") {
  const TemporaryFolder folder;
  const RunFiles whole(folder, "whole"), killed(folder, "killed", 4);
  whole.write_summary(0.75);
  whole.write("hparams.yaml", "seed: 1\n");
  const auto comparison = compared({read_run(whole.path), read_run(killed.path)});

  const auto& finished = comparison.runs[0];
  CHECK(finished.status == "completed");
  CHECK(finished.images_per_second == 32.0);
  CHECK(finished.metrics.at("metrics/eval/Accuracy").best_batch == 4);
  const auto& partly = comparison.runs[1];
  CHECK(partly.status == "killed");
  CHECK(partly.batches == 4);
  CHECK(partly.seconds == 2);
  CHECK(partly.metrics.at("loss/train").best == RunFiles::loss(4));
  CHECK(partly.metrics.at("metrics/eval/Accuracy").last == 0.2);
  CHECK(partly.metrics.at("metrics/eval/CrossEntropy").best_batch == 4);
  CHECK(partly.missing == std::vector<std::string>{"summary.json", "hparams.yaml"});

  const auto text = text_of(comparison, 100);
  CHECK_THAT(text, Contains("killed: has no summary.json") && Contains("whole") &&
                       Contains("evaluation loss") && Contains("* 75.00 %"));
  const auto json = json_of(comparison);
  CHECK(json.at("runs").at(0).at("metrics").at("metrics/eval/Accuracy").at("last") == 0.75);
  CHECK(json.at("runs").at(1).at("images_per_s").is_null());
  CHECK(json.at("runs").at(1).at("missing").size() == 2);
}

TEST_CASE("the best of one run is none, and the best below the last only where it is another",
          "[comparison]") {
  const TemporaryFolder folder;
  const RunFiles a(folder, "a"), b(folder, "b", 0);
  b.write("metrics.jsonl", RunFiles::line("batch", 1, {{"loss/train", 0.5}}) +
                               RunFiles::line("batch", 2, {{"loss/train", 4.125}}));
  const auto comparison = compared({read_run(a.path), read_run(b.path)});
  const auto row = [&](const std::string& label) {
    return std::ranges::find(comparison.outcomes, label, &ComparisonRow::label);
  };
  REQUIRE(row("evaluation accuracy") != comparison.outcomes.end());
  CHECK(row("evaluation accuracy")->winner == std::nullopt);
  CHECK((row("evaluation accuracy") + 1)->label == "evaluation loss");
  const auto loss = row("training loss");
  REQUIRE(loss != comparison.outcomes.end());
  CHECK(loss->winner == 0);
  CHECK(loss->cells == Words{"0.4333", "4.1250"});
  CHECK((loss + 1)->cells == Words{"0.4333", "0.5000"});
  CHECK((loss + 2)->cells == Words{"6", "1"});
}

TEST_CASE("a run that goes on is what its log says, whatever an earlier process left",
          "[comparison]") {
  const TemporaryFolder folder;
  const RunFiles files(folder, "run", 8);
  files.write_summary(0.75);
  auto run = read_run(files.path);
  CHECK(outcome_of(run).batches == 6);
  run.going_on = true;
  CHECK(outcome_of(run).batches == 8);
  CHECK(outcome_of(run).metrics.at("metrics/eval/Accuracy").last == 0.4);
}

TEST_CASE("a table for few columns keeps its numbers whole", "[comparison]") {
  const TemporaryFolder folder;
  std::vector<Run> runs;
  for (const char* name : {"one", "two", "three", "four", "a_run_with_a_very_long_name"}) {
    const RunFiles files(folder, name);
    files.write_summary(0.1234 + 0.1 * static_cast<double>(runs.size()));
    files.write("hparams.yaml", "algorithms: " + std::string(30, 'x') + name + "\n");
    runs.push_back(read_run(files.path));
  }
  const auto comparison = compared(runs);
  for (const int64_t columns : {50, 80, 200}) {
    const auto text = text_of(comparison, columns);
    CAPTURE(columns, text);
    for (const char* value : {"12.34 %", "22.34 %", "32.34 %", "42.34 %", "* 52.34 %"})
      CHECK_THAT(text, Contains(value));
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) CHECK(columns_of(line) <= columns);
  }
  CHECK_THAT(text_of(comparison, 100'000), !Contains("…"));
}

TEST_CASE("runs of one name in several folders are told apart", "[run]") {
  const TemporaryFolder folder;
  std::vector<Run> runs;
  for (const char* name : {"a/run", "b/run"}) runs.push_back(read_run(RunFiles(folder, name).path));
  name_apart(runs);
  CHECK(runs[0].name == "a/run");
  CHECK(runs[1].name == "b/run");
}

TEST_CASE("what is no run's folder is named", "[run]") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(read_run(folder / "none"), Contains("none: is no folder"));
  CHECK_THROWS_WITH(read_run(folder.path()), Contains("metrics.jsonl: cannot be read"));
  const RunFiles files(folder, "run");
  files.write("summary.json", "{\"status\": 3}");
  files.write("hparams.yaml", "a: [1\n");
  std::ofstream(files.path / "metrics.jsonl", std::ios::app) << "garbage\n";
  const auto run = read_run(files.path);
  CHECK(run.log.size() == 12);
  CHECK_FALSE(run.summary);
  REQUIRE(run.damage.size() == 3);
  CHECK_THAT(run.damage[0], Contains("summary.json: is no summary.json of a run"));
  CHECK_THAT(run.damage[1], Contains("hparams.yaml"));
  CHECK_THAT(run.damage[2], Contains("metrics.jsonl:13: ") && Contains("that line is left out"));
}

}  // namespace
}  // namespace composer::comparison_test

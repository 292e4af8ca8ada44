// Further sets that a run evaluates on.
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "composer/callbacks/callbacks.h"
#include "composer/logging/sinks.h"
#include "composer/recipe/recipe.h"
#include "tests/composer/fake_components.h"
#include "tests/composer/stopped_run.h"
#include "tests/composer/tiny_run.h"

namespace composer::evaluators_test {

using namespace composer::test;
using Catch::Contains;
namespace fs = std::filesystem;

namespace {

/// Batch -> names of what was evaluated after it, from the lines of metrics.jsonl.
std::multimap<int64_t, std::set<std::string>> evaluations_of(const fs::path& run) {
  std::multimap<int64_t, std::set<std::string>> evaluations;
  std::ifstream log(run / "metrics.jsonl");
  for (std::string line; std::getline(log, line);) {
    const auto record = nlohmann::json::parse(line);
    if (record["event"] != "eval") continue;
    std::set<std::string> sets;
    for (const auto& [name, value] : record.items())
      if (const std::string set(evaluation_set(name)); !set.empty()) sets.insert(set);
    evaluations.emplace(record["batch"].get<int64_t>(), sets);
  }
  return evaluations;
}

using Evaluations = std::multimap<int64_t, std::set<std::string>>;

/// 8 batches in 2 epochs.
TrainerParts parts_in(const TemporaryFolder& folder, const std::string& name) {
  auto parts = tiny_parts();
  parts.options.run_dir = folder.path().string();
  parts.options.run_name = name;
  parts.console = false;
  return parts;
}

/// A signal during the evaluation of v2.
struct CutEvaluation : Callback {
  void eval_batch_end(const State& state, Logger&, RunControl&) override {
    if (state.evaluation_set == "v2") std::raise(SIGTERM);
  }
};

struct SlowEvaluations : Callback {
  void eval_batch_end(const State& state, Logger&, RunControl&) override {
    if (state.evaluation_set == "v2") return;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // twice
  }
};

std::shared_ptr<Loader> other_set() { return std::make_shared<TinyLoader>(24, 8); }

nlohmann::json json_of(const fs::path& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

}  // namespace

TEST_CASE("each set is evaluated on at its interval, and all that are due stand in one record",
          "[evaluators]") {
  const TemporaryFolder folder;
  auto parts = parts_in(folder, "run");
  parts.evaluators.push_back({"v2", other_set(), Time{3, TimeUnit::batch}});
  parts.evaluators.push_back({"rest", other_set()});
  parts.evaluators.push_back({"never", other_set(), Time{0, TimeUnit::epoch}});
  parts.evaluators.push_back({"half", other_set(), Time{0.5, TimeUnit::duration}});
  Trainer trainer(std::move(parts));
  const auto summary = trainer.fit();
  CHECK(evaluations_of(folder.path() / "run") == Evaluations{{3, {"v2"}},
                                                             {4, {"eval", "rest", "half"}},
                                                             {6, {"v2"}},
                                                             {8, {"eval", "v2", "rest", "half"}}});
  for (const char* name : {"metrics/eval/Accuracy", "metrics/v2/Accuracy",
                           "metrics/rest/CrossEntropy", "metrics/half/Accuracy"}) {
    CHECK(summary.metrics.contains(name));
    CHECK(summary.best_metrics.contains(name));
  }
  CHECK_FALSE(summary.metrics.contains("metrics/never/Accuracy"));
  CHECK(json_of(folder.path() / "run" / "evaluation.json")["samples"] == 16);  // val_dataset's
}

TEST_CASE("times of evaluations that share a record are those of all", "[evaluators]") {
  const TemporaryFolder folder;
  auto parts = parts_in(folder, "run");
  parts.evaluators.push_back({"v2", other_set()});
  const auto slow = std::make_shared<SlowEvaluations>();
  parts.callbacks.push_back({"slow", slow, subscriptions<SlowEvaluations>()});
  Trainer(std::move(parts)).fit();
  std::ifstream log(folder.path() / "run" / "metrics.jsonl");
  int evaluations = 0;
  for (std::string line; std::getline(log, line);) {
    const auto record = nlohmann::json::parse(line);
    if (record["event"] != "eval") continue;
    ++evaluations;
    CHECK(record["time/evaluation"].get<double>() >= 0.04);
  }
  CHECK(evaluations == 2);
}

TEST_CASE("all sets are evaluated on at once", "[evaluators]") {
  auto parts = tiny_parts();
  parts.evaluators.push_back({"v2", other_set()});
  Trainer trainer(std::move(parts));
  std::vector<std::string> names;
  for (const auto& [name, value] : trainer.evaluate_all()) names.push_back(name);
  CHECK(names == std::vector<std::string>{"metrics/eval/Accuracy", "metrics/eval/CrossEntropy",
                                          "metrics/v2/Accuracy", "metrics/v2/CrossEntropy"});
}

TEST_CASE("a run without val_dataset may have other sets", "[evaluators]") {
  const TemporaryFolder folder;
  auto parts = parts_in(folder, "run");
  parts.eval_loader = nullptr;
  parts.options.save_best = "metrics/v2/Accuracy";
  parts.evaluators.push_back({"v2", other_set()});
  Trainer(std::move(parts)).fit();
  CHECK(evaluations_of(folder.path() / "run") == Evaluations{{4, {"v2"}}, {8, {"v2"}}});
  CHECK(fs::exists(folder.path() / "run" / "checkpoints" / "best"));
  CHECK_FALSE(fs::exists(folder.path() / "run" / "evaluation.json"));
}

TEST_CASE("what reads metrics by name reads those of every set", "[evaluators]") {
  const TemporaryFolder folder;
  auto parts = parts_in(folder, "run");
  parts.options.max_duration = {6, TimeUnit::epoch};
  parts.evaluators.push_back({"v2", other_set(), Time{2, TimeUnit::batch}});
  Trainer trainer(std::move(parts));
  EarlyStopper::Params stop;
  stop.monitor = "metrics/v2/Accuracy", stop.min_delta = 2, stop.patience = {3, TimeUnit::batch};
  trainer.add<EarlyStopper>("early_stopper", stop);
  trainer.fit();
  CHECK(trainer.state().time.batch == 6);
  // The run ends by one set's evaluation: the other one has its last then.
  CHECK(evaluations_of(folder.path() / "run") ==
        Evaluations{{2, {"v2"}}, {4, {"eval", "v2"}}, {6, {"eval", "v2"}}});
}

TEST_CASE("metrics of sets that are not there are refused", "[evaluators]") {
  const auto refuse = [](const std::string& metric, const std::string& problem) {
    auto parts = tiny_parts();
    parts.options.save_best = metric;
    parts.evaluators.push_back({"v2", other_set()});
    CHECK_THROWS_WITH(Trainer(std::move(parts)).fit(), Contains(problem));
  };
  refuse("metrics/v3/Accuracy",
         "save_best: there is no metrics/v3/Accuracy; the evaluation gives metrics/eval/Accuracy, "
         "metrics/eval/CrossEntropy, metrics/v2/Accuracy, metrics/v2/CrossEntropy");
  refuse("metrics/train/Accuracy", "save_best: must be a metric of the evaluation");
  auto parts = tiny_parts();
  parts.options.save_best = "metrics/v2/Accuracy";
  parts.evaluators.push_back({"v2", other_set(), Time{0, TimeUnit::epoch}});
  CHECK_THROWS_WITH(Trainer(std::move(parts)).fit(), Contains("the eval_interval of v2 is 0"));
}

TEST_CASE("where nothing is trained a stopper's set need not be there", "[evaluators]") {
  const auto evaluated = [](const std::string& metric) {
    auto parts = tiny_parts();
    parts.train_loader = nullptr, parts.optimizer = nullptr;
    Trainer trainer(std::move(parts));
    EarlyStopper::Params stop;
    stop.monitor = metric;
    trainer.add<EarlyStopper>("early_stopper", stop);
    return trainer.evaluate_all().size();
  };
  CHECK(evaluated("metrics/v2/Accuracy") == 2);
  CHECK_THROWS_WITH(evaluated("metrics/v2/Acuracy"),
                    Contains("early_stopper.monitor: there is no metrics/v2/Acuracy; the "
                             "evaluation gives metrics/v2/Accuracy, metrics/v2/CrossEntropy"));
}

TEST_CASE("sets have names of their own", "[evaluators]") {
  const auto refuse = [](const std::vector<std::string>& names, const std::string& problem) {
    auto parts = tiny_parts();
    for (const auto& name : names) parts.evaluators.push_back({name, other_set()});
    CHECK_THROWS_WITH(Trainer(std::move(parts)).fit(), Contains(problem));
  };
  refuse({"a", "a"}, "evaluators: 'a' is named twice");
  refuse({"eval"}, "'eval' is val_dataset's name");
  refuse({"train"}, "'train' would be taken for the training's metrics");
  refuse({"a/b"}, "'a/b' must be of letters, digits, _ and -");
}

TEST_CASE("a run that goes on does not repeat an evaluation, of whichever set", "[evaluators]") {
  const TemporaryFolder folder;
  const auto run = [&](const std::string& name, int64_t stop_at) {
    auto parts = parts_in(folder, name);
    parts.options.autoresume = true;
    parts.options.eval_interval = {3, TimeUnit::batch};
    parts.evaluators.push_back({"v2", other_set(), Time{2, TimeUnit::batch}});
    Trainer trainer(std::move(parts));
    if (stop_at > 0) trainer.add<StopAt>("stop", stop_at);
    trainer.fit();
    return evaluations_of(folder.path() / name);
  };
  const auto whole = run("whole", 0);
  const int64_t stop = GENERATE(2, 3, 5);
  CAPTURE(stop);
  const auto name = "stopped" + std::to_string(stop);
  run(name, stop);
  auto expected = whole;
  if (!expected.contains(stop)) expected.emplace(stop, std::set<std::string>{"eval", "v2"});
  for (auto& [batch, sets] : expected)
    if (batch == stop) sets = {"eval", "v2"};  // the last of the stopped one
  CHECK(run(name, 0) == expected);
}

TEST_CASE("an evaluation that is done again has one record", "[evaluators][resume]") {
  const TemporaryFolder folder;
  const auto run = [&](bool cut) {
    auto parts = parts_in(folder, "run");
    parts.options.autoresume = true;
    parts.evaluators.push_back({"v2", other_set()});
    Trainer trainer(std::move(parts));
    if (cut) trainer.add<CutEvaluation>("cut");
    trainer.fit();
    return evaluations_of(folder.path() / "run");
  };
  CHECK(run(true) == Evaluations{{4, {"eval"}}});
  const auto checkpoints = folder.path() / "run" / "checkpoints";
  fs::copy(checkpoints, folder.path() / "cut",
           fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  const Evaluations whole{{4, {"eval"}}, {4, {"v2"}}, {8, {"eval", "v2"}}};
  CHECK(run(false) == whole);
  fs::remove_all(checkpoints);  // as if killed before the next one
  fs::rename(folder.path() / "cut", checkpoints);
  CHECK(run(false) == whole);
}

TEST_CASE("what the checkpoint of a resumption cost, logged after it, is kept nowhere",
          "[resume]") {
  RunInfo info;
  info.start.batch = 4;
  const std::vector<std::string> cost{std::string(checkpoint_cost)}, other{"checkpoint/bytes"};
  CHECK(info.keeps("save", 3, cost));
  CHECK_FALSE(info.keeps("save", 4, cost));
  CHECK_FALSE(info.keeps("", 4, cost));
  CHECK(info.keeps("save", 4, other));
}

TEST_CASE("of evaluations at a resumption's start those stay that are not done again",
          "[evaluators][resume]") {
  RunInfo info;
  info.start.batch = 4;
  const std::vector<std::string> main{"metrics/eval/Accuracy", "time/other"},
      other{"metrics/v2/Accuracy", "time/other"},
      both{"metrics/eval/Accuracy", "metrics/v2/Accuracy"};
  CHECK(info.keeps("eval", 4, main));
  CHECK(info.keeps("eval", 4, both));
  CHECK_FALSE(info.keeps("eval", 4, other));
  CHECK(info.keeps("eval", 3, other));
  CHECK(info.keeps("epoch", 4, other));
  CHECK(info.keeps("eval", 4));
  CHECK_FALSE(info.keeps("eval", 5, main));
  info.start_evaluated.clear();
  CHECK_FALSE(info.keeps("eval", 4, main));
  CHECK_FALSE(info.keeps("eval", 4));

  const TemporaryFolder folder;
  folder.write("metrics.csv",
               "event,epoch,batch,sample,seconds,metrics/eval/Accuracy,metrics/v2/Accuracy\n"
               "eval,1,4,32,1,0.5,\neval,1,4,32,1,,0.25\n");
  info.folder = folder.path(), info.start_evaluated = {"eval"};
  Csv().open(info);
  std::ifstream file(folder / "metrics.csv");
  const std::string kept(std::istreambuf_iterator<char>(file), {});
  CHECK_THAT(kept, Contains("0.5,") && !Contains("0.25"));
}

TEST_CASE("records of one batch do not share their times", "[evaluators]") {
  struct Sink : LogSink {
    void write(const Record& record) override {
      for (const auto& [name, value] : record.values)
        if (name == "time/evaluation") evaluations.push_back(value);
    }
    std::vector<double> evaluations;
  };
  const auto sink = std::make_shared<Sink>();
  Logger logger;
  logger.add(sink);
  State state;
  RunControl control;
  RunTimes times({}, {});
  times.fit_start(state, logger, control);
  state.eval_metrics["metrics/v2/Accuracy"] = 1;
  for (const int milliseconds : {500, 1}) {
    times.eval_start(state, logger, control);
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    times.eval_end(state, logger, control);
    logger.commit("eval", state.time);
  }
  logger.flush();
  REQUIRE(sink->evaluations.size() == 2);
  CHECK(sink->evaluations[1] < sink->evaluations[0]);
}

TEST_CASE("evaluations and checkpoints may be seconds apart", "[evaluators][resume]") {
  const TemporaryFolder folder;
  auto parts = parts_in(folder, "run");
  parts.options.eval_interval = parts.options.save_interval = {1e-9, TimeUnit::second};
  Trainer(std::move(parts)).fit();  // every batch takes longer
  const auto evaluations = evaluations_of(folder.path() / "run");
  CHECK(evaluations.size() == 8);
  for (const char* checkpoint : {"ep0-ba1", "ep0-ba3", "ep1-ba4", "ep2-ba8"})
    CHECK(fs::exists(folder.path() / "run" / "checkpoints" / checkpoint));

  parts = parts_in(folder, "rare");
  parts.options.eval_interval = parts.options.save_interval = {1e6, TimeUnit::second};
  Trainer(std::move(parts)).fit();
  CHECK(evaluations_of(folder.path() / "rare") == Evaluations{{8, {"eval"}}});
}

TEST_CASE("seconds since the last evaluation survive a resumption", "[evaluators][resume]") {
  State state;
  Engine engine;
  Evaluator evaluator(state, engine, "eval", other_set(), {100, TimeUnit::second});
  evaluator.done_at(250);
  state.time = {.batch = 7, .batch_in_epoch = 1, .seconds = 349};
  state.run_length.batches_per_epoch = 4;
  CHECK_FALSE(evaluator.due(false, false));
  Evaluator resumed(state, engine, "eval", other_set(), {100, TimeUnit::second});
  CHECK(resumed.due(false, false));
  resumed.load_state_dict(evaluator.state_dict());
  CHECK_FALSE(resumed.due(false, false));
  state.time.seconds = 350;
  CHECK(resumed.due(false, false));
}

namespace {

const std::string sets = R"(evaluators:
  v2:
    dataset: {pictures: {datadir: /data/v2, samples: 7}}
    eval_interval: 0.5dur
    subset_num_batches: 3
  sketch:
    dataset: pictures
)";

}  // namespace

TEST_CASE("a recipe names further sets to evaluate on", "[evaluators][recipe]") {
  const auto recipe = resolved(base + sets);
  REQUIRE(recipe.evaluators.size() == 2);
  const auto& [name, dataset, options] = recipe.evaluators[0];
  CHECK(name == "v2");
  CHECK(dataset->name() == "pictures");
  CHECK(options.eval_interval->str() == "0.5dur");
  CHECK(options.subset_num_batches == 3);
  CHECK_FALSE(recipe.evaluators[1].options.eval_interval);
  const auto text = dump(recipe);
  CHECK(dump(resolved(text)) == text);
  CHECK_THAT(text, Contains("/data/v2"));
  CHECK_THAT(dump(resolved(base)), !Contains("evaluators"));

  const auto changed =
      resolved(base + sets, {"--evaluators.v2.dataset.pictures.samples", "9",
                             "--evaluators.v2.eval_interval", "2ep", "--evaluators.new.dataset",
                             "pictures", "--evaluators.new.dataset.pictures.datadir", "/data/new"});
  REQUIRE(changed.evaluators.size() == 3);
  CHECK(changed.evaluators[0].options.eval_interval->str() == "2ep");
  CHECK(changed.evaluators[2].name == "new");
  CHECK_THAT(dump(changed), Contains("/data/new") && Contains("samples: 9"));
  CHECK(resolved(base + sets, {"--evaluators", "sketch"}).evaluators.size() == 1);
  CHECK(resolved(base + sets, {"--evaluators", "none"}).evaluators.empty());

  const auto added =
      resolved(base + "evaluators: none\n",
               {"--evaluators.new.dataset", "pictures", "--evaluators.new.eval_interval", "2ep"});
  REQUIRE(added.evaluators.size() == 1);
  REQUIRE(added.evaluators[0].options.eval_interval);
  CHECK(added.evaluators[0].options.eval_interval->str() == "2ep");
}

TEST_CASE("an evaluation may leave out the set that had the best checkpoint",
          "[evaluators][recipe]") {
  const RecipeFile file{"r.yaml", base + sets + "save_best: metrics/v2/Accuracy\n"};
  const Words words{"--evaluators", "sketch"};
  CHECK_THROWS_WITH(resolve(file, words, known()), Contains("save_best: there is no set 'v2'"));
  CHECK(resolve(file, words, known(), {.evaluation = true, .options = {}}).evaluators.size() == 1);
}

TEST_CASE("what is wrong with a set is said where it stands", "[evaluators][recipe]") {
  const auto problem = [](const std::string& text, const Words& words = {}) {
    std::string all;
    for (const auto& line : problems_of(base + text, words)) all += line + "\n";
    return all;
  };
  CHECK(problem("evaluators: [v2]\n") ==
        "r.yaml:25:13: evaluators: must be a map of names to {dataset: ..., eval_interval: ...}, "
        "not a list\n");
  CHECK(problem("evaluators: {v2: imagenet}\n") ==
        "r.yaml:25:14: evaluators.v2: must be a map with a dataset, for instance {dataset: "
        "{imagenet: {datadir: ...}}}, not 'imagenet'\n");
  CHECK(problem("evaluators: {v2: {eval_interval: 1ep}}\n") ==
        "r.yaml: evaluators.v2.dataset: missing required key\n");
  CHECK_THAT(problem("evaluators: {eval: {dataset: pictures}}\n"),
             Contains("evaluators: 'eval' is val_dataset's name; choose another one"));
  CHECK_THAT(problem("evaluators: {a b: {dataset: pictures}}\n"),
             Contains("'a b' must be of letters, digits, _ and -"));
  CHECK_THAT(problem("evaluators: {v2: {dataset: pictures, interval: 1ep}}\n"),
             Contains("evaluators.v2.interval: unknown key"));
  CHECK_THAT(problem("evaluators: {v2: {dataset: pictres}}\n"),
             Contains("unknown dataset 'pictres'; did you mean 'pictures'?"));
  CHECK_THAT(problem("evaluators: {v2: {dataset: pictures, eval_interval: 3dur}}\n"),
             Contains("evaluators.v2.eval_interval: must be at most 1dur, the whole run"));
  CHECK_THAT(problem("evaluators: {v2: {dataset: {pictures: {is_train: true}}}}\n"),
             Contains("is_train: must be false"));
  CHECK_THAT(problem("evaluators: {v2: {dataset: pictures}}\nsave_best: metrics/v3/Accuracy\n"),
             Contains("save_best: there is no set 'v3' that metrics/v3/Accuracy could be of; sets "
                      "are eval, v2"));
  CHECK_THAT(problem(sets, {"--evaluators", "v3"}), Contains("there is no set 'v3'"));
  CHECK_THAT(problem("evaluators: {v2: {dataset: pictures}, v2: {dataset: pictures}}\n"),
             Contains("duplicate key"));
}

}  // namespace composer::evaluators_test

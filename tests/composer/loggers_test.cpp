// The loggers that a recipe can name, in runs that are stopped and resumed.
#include <catch2/catch.hpp>
#include <csignal>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "composer/logging/command_log.h"
#include "composer/logging/console.h"
#include "composer/logging/sinks.h"
#include "composer/logging/tensorboard.h"
#include "tests/composer/metric_points.h"
#include "tests/composer/stopped_run.h"
#include "tests/composer/terminal.h"
#include "tests/composer/tiny_run.h"

namespace composer::loggers_test {

using Catch::Contains;
namespace fs = std::filesystem;

namespace {

TrainerParts logged_parts(const TemporaryFolder& folder, std::shared_ptr<LogSink> logger) {
  auto parts = tiny_parts();
  parts.options.run_dir = folder.path().string();
  parts.options.run_name = "run";
  parts.options.autoresume = true;
  parts.options.max_duration = {3, TimeUnit::epoch};
  parts.options.log_interval = {2, TimeUnit::batch};
  parts.recipe = "optimizer: {sgd: {lr: 0.1, nesterov: false}}\nalgorithms: [ema, blurpool]\n";
  parts.console = false;
  if (logger) parts.loggers.push_back(std::move(logger));
  return parts;
}

/// A run that is stopped after batches 3 and 7, with records of later batches in its files as a
/// killed process leaves them, and goes on to its end.
template <class T, class... Params>
void run_with_stops(const TemporaryFolder& folder, const Params&... params) {
  for (const int64_t stop : {3, 7, 100}) {
    Trainer trainer(logged_parts(folder, std::make_shared<T>(params...)));
    if (stop < 100) trainer.add<StopAt>("stop", stop);
    trainer.fit();
    if (stop == 100) break;
    // Batches beyond the checkpoint, and half a record.
    constexpr auto as_it_is = fs::copy_options::recursive | fs::copy_options::copy_symlinks;
    fs::remove_all(folder / "before");
    fs::copy(folder / "run/checkpoints", folder / "before", as_it_is);
    Trainer further(logged_parts(folder, std::make_shared<T>(params...)));
    further.add<StopAt>("stop", stop + 2);
    further.fit();
    fs::remove_all(folder / "run/checkpoints");
    fs::copy(folder / "before", folder / "run/checkpoints", as_it_is);
    for (const auto& entry : fs::recursive_directory_iterator(folder / "run")) {
      const auto name = entry.path().filename().string();
      const char* half = name.find("tfevents") != std::string::npos ? "\x20"
                         : name == "metrics.csv"                    ? "batch,1,"
                         : name == "metrics.jsonl"                  ? "{\"event\":\"bat"
                                                                    : "";
      if (*half != '\0') std::ofstream(entry.path(), std::ios::app | std::ios::binary) << half;
    }
  }
}

std::string text_of_file(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("tensorboard: every value once and as in metrics.jsonl, after stops and resumptions",
          "[logging][resume]") {
  const TemporaryFolder folder;
  run_with_stops<TensorBoard>(folder, TensorBoard::Params{});
  const auto read = read_events(folder / "run/tensorboard");
  REQUIRE(read.files.size() == 3);
  for (const auto& version : read.files) CHECK(version == "brain.Event:2");
  const auto expected = points_of_jsonl(folder / "run");
  CHECK(expected.size() > 30);
  CHECK(points_of_events(folder / "run") == expected);
  CHECK(read.values.at("recipe/text_summary").size() == 3);  // one of each process
  CHECK(read.values.at("_hparams_/session_end_info").size() == 1);
  const auto& session = read.values.at("_hparams_/session_start_info").at(0);
  for (const auto* part : {"hparams", "optimizer.sgd.lr", "optimizer.sgd.nesterov", "algorithms"})
    CHECK_THAT(session, Contains(part));
}

TEST_CASE("tensorboard: histograms of weights and gradients where asked for", "[logging]") {
  const TemporaryFolder folder;
  Trainer(logged_parts(folder, std::make_shared<TensorBoard>(
                                   TensorBoard::Params{.histograms = {4, TimeUnit::batch}})))
      .fit();
  const auto read = read_events(folder / "run/tensorboard");
  for (const auto* tag : {"weights/conv.weight", "gradients/conv.weight", "weights/fc.bias"})
    CHECK(read.values.at(tag).size() == 3);
}

TEST_CASE("tensorboard: nothing for a run that leaves nothing on the disk", "[logging]") {
  const TemporaryFolder folder;
  auto parts = logged_parts(folder, std::make_shared<TensorBoard>(TensorBoard::Params{}));
  parts.options.run_dir = "", parts.options.autoresume = false;
  const auto log = standard_error_of([&] { Trainer(std::move(parts)).fit(); });
  CHECK_THAT(log, !Contains("warning"));
  CHECK(fs::is_empty(folder.path()));
}

TEST_CASE("tensorboard: TensorBoard's own reader gives each scalar once", "[logging][peer]") {
  const TemporaryFolder folder;
  run_with_stops<TensorBoard>(folder, TensorBoard::Params{.histograms = {4, TimeUnit::batch}});
  if (const auto points = points_of_tensorboard(folder / "run", "logged"))
    CHECK(*points == points_of_jsonl(folder / "run"));
}

TEST_CASE("csv: a table of all values, after stops and resumptions", "[logging][resume]") {
  const TemporaryFolder folder;
  run_with_stops<Csv>(folder);
  std::istringstream table(text_of_file(folder / "run/metrics.csv"));
  std::string line;
  std::getline(table, line);
  const auto cells = [](const std::string& text) {
    std::vector<std::string> all(1);
    for (const char c : text)
      if (c == ',')
        all.emplace_back();
      else
        all.back() += c;
    return all;
  };
  const auto columns = cells(line);
  CHECK(std::vector<std::string>(columns.begin(), columns.begin() + 5) ==
        std::vector<std::string>{"event", "epoch", "batch", "sample", "seconds"});
  std::ifstream file(folder / "run/metrics.jsonl");
  for (std::string json; std::getline(file, json);) {
    REQUIRE(std::getline(table, line));
    const auto row = cells(line);
    REQUIRE(row.size() == columns.size());
    size_t filled = 0;
    const auto record = nlohmann::json::parse(json);
    for (size_t i = 0; i < row.size(); ++i) filled += row[i].empty() ? 0 : 1;
    CHECK(filled == record.size());
    for (size_t i = 0; i < row.size(); ++i) {
      if (row[i].empty()) continue;
      const auto& value = record.at(columns[i]);
      CHECK(row[i] == (value.is_string() ? value.get<std::string>() : value.dump()));
    }
  }
  CHECK_FALSE(std::getline(table, line));
}

TEST_CASE("command: gets the run, each record, and how it ended", "[logging]") {
  const TemporaryFolder folder;
  const auto file = (folder / "got.jsonl").string();
  const auto log = standard_error_of([&] {
    Trainer(logged_parts(folder, std::make_shared<CommandLog>(CommandLog::Params{
                                     .run = "cat >" + file + "; echo all is there"})))
        .fit();
  });
  CHECK_THAT(log, Contains("command: all is there") && !Contains("warning"));
  std::istringstream got(text_of_file(file));
  std::string line;
  std::getline(got, line);
  const auto start = nlohmann::json::parse(line);
  CHECK(start.at("event") == "start");
  CHECK(start.at("run_name") == "run");
  CHECK(start.at("recipe").at("optimizer").at("sgd").at("lr") == 0.1);
  CHECK(start.at("recipe").at("optimizer").at("sgd").at("nesterov") == false);
  std::istringstream lines(text_of_file(folder / "run/metrics.jsonl"));
  for (std::string expected; std::getline(lines, expected);) {
    REQUIRE(std::getline(got, line));
    CHECK(line == expected);
  }
  REQUIRE(std::getline(got, line));
  CHECK(nlohmann::json::parse(line) ==
        nlohmann::json{{"event", "end"}, {"status", "completed"}, {"message", ""}});
}

TEST_CASE("command: a program that dies, is not there or does not read ends no run",
          "[logging][slow]") {
  const auto log_of = [&](const std::string& run) {
    const TemporaryFolder folder;
    return standard_error_of([&] {
      auto parts = logged_parts(
          folder, std::make_shared<CommandLog>(CommandLog::Params{.run = run, .end_seconds = 0.2}));
      CHECK(Trainer(std::move(parts)).fit().status == "completed");
    });
  };
  CHECK_THAT(log_of("exec ./no_such_program"), Contains("has ended with status 127"));
  CHECK_THAT(log_of("read line; exit 3"),
             Contains("has ended with status 3") && Contains("did not reach it"));
  CHECK_THAT(log_of("cat >/dev/null; exec sleep 1000"), Contains("did not end and was killed"));
  CHECK_THAT(log_of("exec sleep 1000"), Contains("was killed"));
}

TEST_CASE("console: a recipe's own takes the place of the usual one", "[logging]") {
  const TemporaryFolder folder;
  auto parts =
      logged_parts(folder, std::make_shared<ConsoleSink>(ConsoleSink::Params{.line_interval = 0}));
  parts.console = true;
  const auto log = standard_error_of([&] { Trainer(std::move(parts)).fit(); });
  CHECK_THAT(log, Contains("batch 1/4"));
  size_t headers = 0;
  for (size_t at = 0; (at = log.find("device: cpu", at)) != std::string::npos; ++at) ++headers;
  CHECK(headers == 1);
}

namespace {

/// Notes its calls in a list that outlives it.
class NotesEnd : public Callback {
 public:
  explicit NotesEnd(std::vector<std::string>& notes, bool fails = false)
      : notes_(notes), fails_(fails) {}
  void run_end(const State&, const RunEnd& end) override {
    notes_.push_back(end.status + ": " + end.message);
    if (fails_) throw RunError("the callback's own");
  }

 private:
  std::vector<std::string>& notes_;
  bool fails_;
};

class AtBatchThree : public Callback {
 public:
  explicit AtBatchThree(std::function<void()> action) : action_(std::move(action)) {}
  void batch_end(const State& state, Logger&, RunControl&) override {
    if (state.time.batch == 3) action_();
  }

 private:
  std::function<void()> action_;
};

class SinkEnd : public LogSink {
 public:
  explicit SinkEnd(std::vector<std::string>& notes) : notes_(notes) {}
  void write(const Record&) override {}
  void run_end(const RunEnd& end) override { notes_.push_back(end.status + ": " + end.message); }

 private:
  std::vector<std::string>& notes_;
};

}  // namespace

TEST_CASE("callbacks and sinks are told once how the run ended", "[logging][trainer]") {
  const TemporaryFolder folder;
  std::vector<std::string> notes, sink_notes;
  const auto fit = [&](const std::function<void()>& action, bool fails = false) {
    notes.clear(), sink_notes.clear();
    fs::remove_all(folder / "run");
    Trainer trainer(logged_parts(folder, std::make_shared<SinkEnd>(sink_notes)));
    trainer.add<AtBatchThree>("action", action);
    trainer.add<NotesEnd>("notes", notes, fails);
    trainer.fit();
  };
  using Notes = std::vector<std::string>;
  fit([] {});
  CHECK(notes == Notes{"completed: "});
  CHECK(sink_notes == notes);
  fit([] { std::raise(SIGTERM); });
  CHECK(notes == Notes{"interrupted: signal 15 (SIGTERM)"});
  CHECK(sink_notes == notes);
  const std::string problem = "callbacks.action at batch_end: no more data";
  CHECK_THROWS_WITH(fit([] { throw RunError("no more data"); }), problem);
  CHECK(notes == Notes{"failed: " + problem});
  CHECK(sink_notes == notes);
  const auto log = standard_error_of(
      [&] { CHECK_THROWS_WITH(fit([] { throw RunError("no more data"); }, true), problem); });
  CHECK_THAT(log, Contains("callbacks.notes: at the run's end: the callback's own"));
  CHECK(sink_notes == Notes{"failed: " + problem});
}

}  // namespace composer::loggers_test

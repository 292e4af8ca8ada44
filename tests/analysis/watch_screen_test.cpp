
#include <catch2/catch.hpp>
#include <regex>
#include <set>

#include "analysis/run.h"
#include "analysis/terminal_plot.h"
#include "base/terminal.h"
#include "tests/analysis/run_files.h"

namespace composer::watch_screen_test {
namespace {

using Catch::Contains;

std::string plain(const std::string& line) {
  return std::regex_replace(line, std::regex("\x1b\\[[0-9;]*m"), "");
}

TEST_CASE("dots make the characters of Braille", "[terminal_plot]") {
  DotField field(2, 1);
  CHECK(field.width() == 4);
  CHECK(field.height() == 4);
  field.dot(0, 0, 0);
  field.dot(3, 3, 1);
  field.dot(4, 0, 0);
  field.dot(0, -1, 0);
  CHECK(plain(field.rows()[0]) == "⠁⢀");
  field.line(0, 0, 3, 3, 0);
  CHECK(plain(field.rows()[0]) == "⠑⢄");
}

TEST_CASE("a plot has the rows and columns that it is given", "[terminal_plot]") {
  const TemporaryFolder folder;
  const auto run = read_run(RunFiles(folder, "run").path);
  LineChart chart;
  chart.title = "Loss";
  chart.lines = {{"training", 0, false, false, curve_of(run.log, "loss/train")}};
  const auto lines = terminal_plot(chart, Against::batch, 40, 9);
  REQUIRE(lines.size() == 9);
  for (const auto& line : lines) CHECK(columns_of(plain(line)) <= 40);
  CHECK(plain(lines[0]) == "Loss");
  CHECK_THAT(plain(lines[1]), Contains("┤"));
  CHECK_THAT(plain(lines[8]), Contains("steps"));
}

TEST_CASE("a plot says what it cannot draw", "[terminal_plot]") {
  LineChart chart;
  chart.title = "Loss";
  chart.lines = {{"training", 0, false, false, {"loss/train", {{1, 1, 1, NAN}}}}};
  const auto lines = terminal_plot(chart, Against::batch, 40, 9);
  REQUIRE(lines.size() == 9);
  CHECK(lines[1] == "not finite throughout");
}

TEST_CASE("a plot of stairs has no slopes", "[terminal_plot]") {
  LineChart chart;
  chart.lines = {{"width", 0, false, false, {"width", {{0, 0, 0, 16.0}, {8, 8, 8, 32.0}}}}};
  chart.stairs = true;
  std::set<std::string> drawn;
  for (const auto& line : terminal_plot(chart, Against::batch, 40, 9))
    for (const char* slope : {"⠢", "⠑", "⢄", "⠒⠤", "⡠"})
      if (line.find(slope) != std::string::npos) drawn.insert(slope);
  CHECK(drawn.empty());
}

TEST_CASE("a screen fits its terminal, and shows where the run is", "[watch_screen]") {
  const TemporaryFolder folder;
  const RunFiles files(folder, "run", 4);
  files.write("about.json",
              R"({"header": [], "class_names": [], "surgery": [], "total_batches": 8})");
  auto run = read_run(files.path);
  run.going_on = true;
  for (const int64_t columns : {30, 60, 130, 250})
    for (const int64_t rows : {5, 12, 24, 50}) {
      const auto lines = watch_screen(run, columns, rows);
      CAPTURE(columns, rows);
      CHECK(std::ssize(lines) == rows);
      for (const auto& line : lines) CHECK(columns_of(plain(line)) <= columns);
      CHECK_THAT(plain(lines[0]), Contains("going on"));
      CHECK_THAT(plain(lines[1]), Contains("50%"));
      CHECK_THAT(plain(lines.back()), Contains("q leaves"));
    }
  const auto progress = progress_of(run);
  CHECK(progress.share == 0.5);
  CHECK(progress.seconds_left == std::nullopt);
  std::string screen;
  for (const auto& line : watch_screen(run, 130, 40)) screen += plain(line) + "\n";
  CHECK_THAT(screen, Contains("Loss") && Contains("Accuracy") && Contains("CrossEntropy") &&
                         Contains("epoch 2  step 4"));
}

TEST_CASE("a screen of a run that has ended has its summary's numbers and reason",
          "[watch_screen]") {
  const TemporaryFolder folder;
  const RunFiles files(folder, "run");
  files.write_summary(0.5);
  auto run = read_run(files.path);
  run.summary->status = "failed", run.summary->message = "no room\non the disk";
  run.summary->seconds = 7;
  std::string screen;
  for (const auto& line : watch_screen(run, 100, 20)) screen += plain(line) + "\n";
  CHECK_THAT(screen, Contains("7 s  32 images/s") && Contains("\nno room on the disk\n"));
}

TEST_CASE("the time that is left follows the pace of late", "[watch_screen]") {
  Run run;
  run.description.emplace().total_batches = 200;
  for (int64_t batch = 1; batch <= 100; ++batch)
    run.log.push_back(
        {"batch",
         0,
         batch,
         batch,
         batch <= 50 ? 10.0 * static_cast<double>(batch) : 450 + static_cast<double>(batch),
         {}});
  CHECK(progress_of(run).share == 0.5);
  CHECK(progress_of(run).seconds_left == Approx(100));
}

TEST_CASE("lines tell of epochs and evaluations", "[watch_screen]") {
  CHECK(watch_line({"batch", 0, 1, 1, 1, {{"loss/train", 1}}}).empty());
  CHECK(watch_line({"epoch", 1, 10, 160, 65, {{"metrics/train/Accuracy", 0.5}}}) ==
        "epoch  epoch 1, step 10  Accuracy 0.5  after 65 s");
  CHECK_THAT(watch_line({"eval", 1, 10, 160, 65, {{"metrics/eval/Accuracy", 0.25}}}),
             Contains("eval ") && Contains("Accuracy 0.25"));
  CHECK_THAT(watch_line({"eval", 1, 10, 160, 65, {{"metrics/v2/Accuracy", 0.25}}}),
             Contains("  v2/Accuracy 0.25"));
}

TEST_CASE("a log is followed line by line, and from the beginning once it is another file",
          "[run_log_tail]") {
  const TemporaryFolder folder;
  const auto file = folder / "metrics.jsonl";
  RunLogTail tail(file);
  std::vector<LogEntry> log;
  CHECK_FALSE(tail.update(log));
  const auto one = RunFiles::line("batch", 1, {{"lr", 1}}),
             two = RunFiles::line("batch", 2, {{"lr", 2}});
  folder.write("metrics.jsonl", one + two.substr(0, 20));
  CHECK(tail.update(log));
  CHECK(log.size() == 1);
  CHECK_FALSE(tail.update(log));
  std::ofstream(file, std::ios::app) << two.substr(20);
  CHECK(tail.update(log));
  REQUIRE(log.size() == 2);
  CHECK(log[1].values.at("lr") == 2);
  folder.write("other", one);
  std::filesystem::rename(folder / "other", file);
  CHECK(tail.update(log));
  CHECK(log.size() == 1);
}

}  // namespace
}  // namespace composer::watch_screen_test

#include "composer/logging/console.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <utility>

#include "base/log.h"
#include "tests/composer/terminal.h"
#include "tests/composer/tiny_run.h"

namespace composer::console_test {

using Catch::Matchers::Contains;
using Phase = Progress::Phase;

namespace {

/// Variables as they were, once it ends.
class Environment {
 public:
  ~Environment() {
    for (const auto& [name, value] : before_) put(name, value);
  }
  void set(const std::string& name, const std::string& value) {
    const char* const now = std::getenv(name.c_str());
    before_.emplace(name, now == nullptr ? "" : now);
    put(name, value);
  }

 private:
  /// An empty value unsets it.
  static void put(const std::string& name, const std::string& value) {
    if (value.empty())
      ::unsetenv(name.c_str());
    else
      ::setenv(name.c_str(), value.c_str(), 1);
  }

  std::map<std::string, std::string> before_;
};

/// 90 epochs of 100 batches.
RunLength long_run_length() {
  return {.batches_per_epoch = 100,
          .samples_per_epoch = 12800,
          .batch_size = 128,
          .max_duration = {90, TimeUnit::epoch}};
}

Timestamp after(int64_t batches) {
  auto time = long_run_length().at_batch(batches);
  time.seconds = static_cast<double>(batches);
  return time;
}

RunInfo long_run() {
  RunInfo info;
  info.run_length = long_run_length();
  info.header = {"network: resnet50, 25557032 parameters, 1000 classes", "run: runs/first"};
  return info;
}

void train(ConsoleSink& sink, int64_t batches, double loss = 2.5) {
  for (int64_t batch = 1; batch <= batches; ++batch) {
    const auto time = after(batch);
    sink.write({"batch", time, {{"loss/train", loss}, {"metrics/train/Accuracy", 0.25}}});
    sink.progress({Phase::training, time});
  }
}

void evaluate(ConsoleSink& sink) {
  for (int64_t batch = 0; batch <= 4; ++batch)
    sink.progress({Phase::evaluating, after(100), batch, 4});
  sink.progress({Phase::evaluated, after(100), 4, 4});
}

int64_t count_of(const std::vector<std::string>& lines, const std::string& beginning) {
  return std::ranges::count_if(lines,
                               [&](const auto& line) { return line.starts_with(beginning); });
}

/// Its first batch takes a moment.
class SlowLoader : public TinyLoader {
 public:
  using TinyLoader::TinyLoader;
  std::optional<RawBatch> next() override {
    if (!std::exchange(begun_, true)) std::this_thread::sleep_for(std::chrono::milliseconds(150));
    return TinyLoader::next();
  }

 private:
  bool begun_ = false;
};

}  // namespace

TEST_CASE("text is counted and cut in columns", "[console]") {
  CHECK(columns_of("━━╸ é") == 5);
  CHECK(first_columns("━━╸ é", 2) == "━━");
  CHECK(first_columns("ab", 9) == "ab");
  CHECK(parts_that_fit({"epoch 1", "loss 2", "accuracy"}, 16) == "epoch 1  loss 2");
  CHECK(parts_that_fit({"epoch 1", "loss 2", "eval 3", "1:02"}, 16, 2) == "epoch 1  eval 3");
  CHECK(parts_that_fit({"epoch 1", "loss 2", "eval 3", "1:02"}, 25, 2) ==
        "epoch 1  loss 2  eval 3");
  CHECK(parts_that_fit({"epoch 1", "loss 2", "eval 3"}, 9, 2) == "epoch 1");
  CHECK(wrapped("one, two, three", 10) == std::vector<std::string>{"one, two,", "three"});
  using Lines = std::vector<std::string>;
  CHECK(wrapped("run: runs/abcdef 1", 5) == Lines{"run:", "runs/abcdef", "1"});
  CHECK(wrapped("a, bcdefg hijkl", 10) == Lines{"a, bcdefg", "hijkl"});
  CHECK(wrapped("  aé bc  de", 6) == Lines{"  aé", "  bc", "  de"});
  CHECK(wrapped("abc def", 3) == Lines{"abc", "def"});
  CHECK(wrapped("", 3) == Lines{""});
}

TEST_CASE("bars leave out what does not fit, the last first", "[console]") {
  const std::vector<std::string> parts{"loss 2.5000", "1:02 left", "77 images/s"};
  CHECK(progress_line("eval", 0.379, {}, 80) == "eval ━━━━━━━━━╸                37%");
  CHECK(progress_line("epoch 1", 0.5, parts, 40) == "epoch 1 ━━━━━━━╸        50%  loss 2.5000");
  CHECK(progress_line("epoch 1", 0.5, parts, 14) == "epoch 1  50%");
  for (int64_t columns = 1; columns < 120; ++columns) {
    const auto line = progress_line("epoch 1", 0.5, parts, columns);
    INFO(columns << ": " << line);
    CHECK(columns_of(line) <= columns);
    if (columns >= 12) CHECK_THAT(line, Contains("50%"));
  }
}

TEST_CASE("bars fit the terminal, whose size may change", "[console]") {
  const int columns = GENERATE(40, 80, 200);
  TerminalForTest terminal(columns);
  {
    ConsoleSink sink(ConsoleSink::Params{true, 30, 0});
    sink.open(long_run());
    train(sink, 100);
    evaluate(sink);
    log::info("smaller");
    terminal.resize(columns / 2);
    train(sink, 100);
    evaluate(sink);
    sink.write({"epoch", after(100), {{"metrics/train/Accuracy", 0.25}}});
  }
  const auto lines = drawn_lines(terminal.text());
  const auto smaller = std::ranges::find(lines, "smaller");
  REQUIRE(smaller != lines.end());
  const std::vector before(lines.begin(), smaller), behind(smaller, lines.end());
  CHECK(widest(before) <= columns);
  CHECK(widest(behind) <= columns / 2);
  for (const auto& part : {before, behind}) {
    CHECK(count_of(part, "epoch ") >= 100);
    CHECK(count_of(part, "eval ") == 5);
    for (const auto& line : part)
      if (line.starts_with("eval ") || line.starts_with("epoch 1/90 ━"))
        CHECK_THAT(line, Contains("%"));
  }
  CHECK(count_of(before, "network: ") == 1);
  const bool has_loss = std::ranges::any_of(
      before, [](const auto& line) { return line.find("loss 2.5000") != std::string::npos; });
  CHECK(has_loss);
}

TEST_CASE("an epoch's line keeps the evaluation's accuracy on a narrow terminal", "[console]") {
  const auto line_on = [](int columns) {
    TerminalForTest terminal(columns);
    {
      ConsoleSink sink(ConsoleSink::Params{true, 30, 60});
      sink.open(long_run());
      train(sink, 100);
      sink.write({"epoch", after(100), {{"metrics/train/Accuracy", 0.25}}});
      sink.write({"eval", after(100), {{"metrics/eval/Accuracy", 0.75}}});
    }
    const auto lines = drawn_lines(terminal.text());
    const auto line = std::ranges::find_if(
        lines, [](const auto& text) { return text.find("eval accuracy") != std::string::npos; });
    return line == lines.end() ? "" : *line;
  };
  CHECK(line_on(40) == "epoch 1/90  eval accuracy 0.7500");
  CHECK(line_on(62) == "epoch 1/90  loss 2.5000  accuracy 0.2500  eval accuracy 0.7500");
}

TEST_CASE("a line that is wrapped on a terminal is whole elsewhere", "[console]") {
  const std::string split = "split: 96 samples to train on, 24 to evaluate on";
  // First, as the log keeps to the colours of the terminal that it first meets.
  CHECK(standard_error_of([&] { log::info(split); }) == split + "\n");
  TerminalForTest terminal(40);
  log::info(split);
  const auto lines = drawn_lines(terminal.text());
  REQUIRE(lines.size() >= 2);
  CHECK(lines[0] == "split: 96 samples to train on,");
  CHECK(lines[1] == "24 to evaluate on");
  CHECK(wrapped_for(-1, "one two\nthree") == "one two\nthree");
}

TEST_CASE("colours are shown on terminals, unless the environment says otherwise", "[console]") {
  Environment environment;
  for (const char* name : {"NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"}) environment.set(name, "");
  environment.set("TERM", "xterm");
  const TemporaryFolder folder;
  const int file = ::open((folder / "file").c_str(), O_CREAT | O_WRONLY, 0600);
  TerminalForTest terminal(40);
  const auto shown = [&] { return std::pair(shows_colors(STDERR_FILENO), shows_colors(file)); };
  CHECK(shown() == std::pair(true, false));
  environment.set("TERM", "dumb");
  CHECK(shown() == std::pair(false, false));
  environment.set("CLICOLOR_FORCE", "1");
  CHECK(shown() == std::pair(true, true));
  environment.set("NO_COLOR", "1");
  CHECK(shown() == std::pair(false, false));
  environment.set("NO_COLOR", "");
  environment.set("CLICOLOR_FORCE", "0");
  environment.set("TERM", "xterm");
  CHECK(shown() == std::pair(true, false));
  environment.set("CLICOLOR", "0");
  CHECK(shown() == std::pair(false, false));
  close(file);
  CHECK(without_colors("\x1b[1ma\x1b[22m \x1b[32mb\x1b[39m") == "a b");
  CHECK(without_colors("a\x1b[") == "a");
}

TEST_CASE("bars are drawn a few times a second only", "[console]") {
  TerminalForTest terminal(80);
  {
    ConsoleSink sink(ConsoleSink::Params{true, 30, 60});
    sink.open(long_run());
    train(sink, 100);
  }
  CHECK(count_of(drawn_lines(terminal.text()), "epoch ") == 1);
}

TEST_CASE("a line of the log takes the bar away first", "[console]") {
  TerminalForTest terminal(80);
  {
    ConsoleSink sink(ConsoleSink::Params{true, 30, 0});
    sink.open(long_run());
    train(sink, 1);
    log::warn("mind this");
  }
  const auto& text = terminal.text();
  const auto message = text.find("warning: mind this");
  REQUIRE(message != std::string::npos);
  const auto cleared = text.rfind("\r\x1b[K", message);
  REQUIRE(cleared != std::string::npos);
  CHECK(drawn_lines(text.substr(cleared, message - cleared)).front().empty());
}

TEST_CASE("a loss that is not finite is shown as elsewhere", "[console]") {
  const double loss = GENERATE(std::nan(""), -std::nan(""), -INFINITY);
  TerminalForTest terminal(80);
  {
    ConsoleSink sink(ConsoleSink::Params{true, 30, 0});
    sink.open(long_run());
    train(sink, 2, loss);
    sink.write({"epoch", after(100), {}});
  }
  CHECK_THAT(terminal.text(), Contains(std::isnan(loss) ? "loss NaN" : "loss -Infinity"));
  CHECK_THAT(terminal.text(), !Contains("nan") && !Contains("-NaN") && !Contains("-inf"));
}

TEST_CASE("without a terminal a line comes every so often", "[console]") {
  const auto lines_every = [](double seconds) {
    return drawn_lines(standard_error_of([&] {
      ConsoleSink sink(ConsoleSink::Params{true, seconds});
      sink.open(long_run());
      train(sink, 3);
      evaluate(sink);
    }));
  };
  const auto often = lines_every(0);
  CHECK(count_of(often, "epoch 1/90    0%  batch ") == 3);
  CHECK(count_of(often, "eval   50%  batch 2/4") == 1);
  const auto seldom = lines_every(30);
  CHECK(count_of(seldom, "epoch ") == 0);
  CHECK(count_of(seldom, "network: resnet50, 25557032 parameters") == 1);
}

TEST_CASE("a long wait for the first batch is told of", "[console]") {
  const auto text = standard_error_of([] {
    ConsoleSink sink(ConsoleSink::Params{true, 0.02});
    sink.progress({Phase::waiting, {}});
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    sink.progress({Phase::training, {}});
  });
  CHECK_THAT(text, Contains("waiting for the first batch (0:00)\n"));
  const auto short_wait = standard_error_of([] {
    ConsoleSink sink(ConsoleSink::Params{true});
    sink.progress({Phase::waiting, {}});
  });
  CHECK(short_wait.empty());
}

TEST_CASE("a run on a terminal shows what it is, its wait, training and evaluation", "[console]") {
  TerminalForTest terminal(40);
  {
    auto parts = tiny_parts();
    parts.options.progress_bar = true;
    parts.train_loader = std::make_shared<SlowLoader>(32, 8);
    Trainer(std::move(parts)).fit();
  }
  const auto lines = drawn_lines(terminal.text());
  CHECK(widest(lines) <= 40);
  CHECK(count_of(lines, "device: cpu") == 1);
  CHECK(count_of(lines, "waiting for the first batch") == 1);
  CHECK(count_of(lines, "epoch 1/2 ") >= 2);
  CHECK(count_of(lines, "eval ") >= 2);
}

TEST_CASE("evaluation alone has a bar", "[console]") {
  TerminalForTest terminal(80);
  {
    auto parts = tiny_parts();
    parts.options.progress_bar = true;
    Trainer(std::move(parts)).evaluate();
  }
  const auto lines = drawn_lines(terminal.text());
  CHECK(count_of(lines, "eval ") >= 2);
  CHECK(count_of(lines, "eval ") == std::ssize(lines) - 1);
  CHECK(lines.back().empty());
  CHECK(terminal.text().ends_with("\r\x1b[K"));
}

TEST_CASE("the header stays without a bar and goes without a console", "[console]") {
  const auto text = standard_error_of([] { Trainer(tiny_parts()).fit(); });
  CHECK_THAT(text, Contains("device: cpu (") && Contains("), fp32, 8 loader threads\n"));
  CHECK_THAT(text, Contains("network: ") && Contains(", 122 parameters, 2 classes\n"));
  CHECK_THAT(text, Contains("training: 32 samples of 8x8, 4 steps an epoch, 8 in all, 2ep\n"));
  CHECK_THAT(text, Contains("evaluation: 16 samples of 8x8\n"));
  CHECK_THAT(text, Contains("run: nothing is left on the disk\n"));
  CHECK(count_of(drawn_lines(text), "device: ") == 1);

  auto parts = tiny_parts();
  parts.console = false;
  CHECK(standard_error_of([&] { Trainer(std::move(parts)).fit(); }).empty());
}

}  // namespace composer::console_test

// report, compare and watch on runs of the program.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "tests/cli/look.h"
#include "tests/cli/on_terminal.h"
#include "tests/temporary_folder.h"

namespace composer::report_test {

using Catch::Contains;
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

std::string text_in(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

const std::string training =
    "train --run_dir runs --train_dataset.shapes.samples 64 --val_dataset.shapes.samples 32 "
    "--train_batch_size 16 --eval_batch_size 16 --precision fp32 "
    "--num_workers 1 --log_interval 1ba ";

/// Two epochs, where `words` do not say how many.
std::vector<std::string> short_training(const std::string& words) {
  const bool says = words.find("--max_duration") != std::string::npos;
  return split(training + words + (says ? "" : " --max_duration 2ep"));
}

/// A folder with short runs, by their names and further words.
struct Runs {
  explicit Runs(std::initializer_list<std::pair<std::string, std::string>> runs) {
    for (const auto& [name, words] : runs) {
      const auto outcome = run(folder.path(), short_training("--run_name " + name + " " + words));
      INFO(outcome.errors);
      REQUIRE(outcome.status == 0);
    }
  }
  fs::path of(const std::string& name) const { return folder / "runs" / name; }

  TemporaryFolder folder;
};

/// Batch and value of every number of the metric in the run's log.
std::set<std::pair<int64_t, double>> logged(const fs::path& run, const std::string& metric) {
  std::set<std::pair<int64_t, double>> values;
  std::ifstream in(run / "metrics.jsonl");
  for (std::string line; std::getline(in, line);) {
    const auto entry = json::parse(line);
    if (entry.contains(metric)) values.emplace(entry.at("batch"), entry.at(metric));
  }
  return values;
}

std::set<std::pair<int64_t, double>> numbers_of(const json& line) {
  std::set<std::pair<int64_t, double>> values;
  for (size_t i = 0; i < line.at("value").size(); ++i)
    values.emplace(line.at("batch")[i], line.at("value")[i]);
  return values;
}

/// A browser, from COMPOSER_TEST_BROWSER or the PATH; empty and told where there is none.
std::string browser() {
  if (const char* given = std::getenv("COMPOSER_TEST_BROWSER")) return given;
  for (const std::string name : {"chromium", "chromium-browser", "google-chrome"})
    if (std::system(("command -v " + name + " > /dev/null 2>&1").c_str()) == 0) return name;
  WARN("no browser (COMPOSER_TEST_BROWSER, or chromium on the PATH): the page is not opened");
  return "";
}

/// Reads every chart as a reader's script would, moves the pointer over it, and writes down what
/// came of it.
const std::string probe = R"(<script>
const charts = [...document.querySelectorAll(".chart")].map((chart) => {
  const drawing = [...chart.querySelectorAll("svg")].find((one) => getComputedStyle(one).display !== "none");
  const box = drawing.getBoundingClientRect(), at = { clientX: box.left + box.width / 2, clientY: box.top + 9, bubbles: true };
  drawing.dispatchEvent(new PointerEvent("pointermove", at));
  const tip = document.getElementById("tip"), rows = tip.hidden ? 0 : tip.querySelectorAll("div").length;
  drawing.dispatchEvent(new PointerEvent("pointerleave", at));
  return { ...JSON.parse(chart.querySelector("script.data").textContent), rows, against: drawing.dataset.against,
           shown: chart.querySelectorAll("svg").length, width: box.width, hidden: tip.hidden };
});
const result = document.createElement("pre");
result.id = "probe";
result.textContent = btoa(unescape(encodeURIComponent(JSON.stringify({ charts, broken: [...document.images].filter((image) => !image.naturalWidth).length,
  images: document.images.length, wide: document.documentElement.scrollWidth > innerWidth }))));
document.body.append(result);
</script>)";

std::string from_base64(const std::string& text) {
  std::string bytes;
  int bits = 0;
  uint32_t value = 0;
  const std::string letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (const char c : text) {
    const size_t place = letters.find(c);
    if (place == std::string::npos) continue;
    value = value << 6 | static_cast<uint32_t>(place);
    if ((bits += 6) >= 8) bytes += static_cast<char>(value >> (bits -= 8) & 255);
  }
  return bytes;
}

/// What the page holds for those who open it in a browser; the browser's complaints are failures.
json opened(const TemporaryFolder& folder, const std::string& program, const std::string& name) {
  auto page = text_in(folder / name);
  page.insert(page.rfind("</body>"), probe);
  folder.write("probed.html", page);
  const auto outcome =
      Process(
          folder.path(),
          {"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
           "--user-data-dir=" + (folder / "profile").string(), "--enable-logging=stderr",
           "--window-size=1200,900", "--dump-dom", "file://" + (folder / "probed.html").string()},
          program)
          .wait();
  CHECK_THAT(outcome.errors, !Contains("CONSOLE"));
  const std::string opening = "<pre id=\"probe\">";
  const size_t at = outcome.output.find(opening);
  INFO(outcome.errors);
  REQUIRE(at != std::string::npos);
  const size_t begin = at + opening.size();
  return json::parse(
      from_base64(outcome.output.substr(begin, outcome.output.find("</pre>", at) - begin)));
}

}  // namespace

TEST_CASE("a run leaves a report unless it is told not to", "[cli][report]") {
  const Runs runs{{"first", ""}, {"bare", "--loggers none"}};
  CHECK_FALSE(fs::exists(runs.of("bare") / "report.html"));
  const auto page = text_in(runs.of("first") / "report.html");
  CHECK_THAT(page, Contains(">completed<") && Contains("Where the time went") &&
                       Contains("Surgery") && Contains("What it is most wrong about"));

  const auto late = run(runs.folder.path(), split("report runs/bare --output late.html"));
  INFO(late.errors);
  CHECK(late.status == 0);
  CHECK_THAT(text_in(runs.folder / "late.html"), Contains(">completed<"));
  const auto none = run(runs.folder.path(), split("report runs/none --output x.html"));
  CHECK(none.status == 2);
  CHECK_THAT(none.errors, Contains("runs/none: is no folder"));
  const auto full = run(runs.folder.path(), split("report runs/bare --output none/x.html"));
  CHECK(full.status == 2);
  CHECK_THAT(full.errors, Contains("--output: "));
}

TEST_CASE("a run that fails leaves a report too", "[cli][report]") {
  const TemporaryFolder folder;
  const auto failed =
      run(folder.path(), short_training("--run_name bad --optimizer sgd --lr 1e30"));
  CHECK(failed.status == 1);
  CHECK_THAT(text_in(folder / "runs/bad/report.html"), Contains(">failed<"));
}

TEST_CASE("a run whose network is not finite is told of as any other", "[cli][report]") {
  const Runs runs{{"nan", "--optimizer sgd --lr 1e30 --on_nan ignore"}};
  REQUIRE_THAT(text_in(runs.of("nan") / "evaluation.json"), Contains("\"NaN\""));
  CHECK_THAT(text_in(runs.of("nan") / "report.html"), Contains("not finite"));
  CHECK_THAT(run(runs.folder.path(), split("compare runs/nan")).output, Contains("NaN"));
  CHECK_THAT(run(runs.folder.path(), split("watch runs/nan")).output, Contains("nan: completed"));
}

TEST_CASE("what is damaged in runs is left out, and a folder of runs told of",
          "[cli][report][slow]") {
  const Runs runs{{"a", ""}};
  const auto root = runs.folder.path();
  std::ofstream(runs.of("a") / "evaluation.json") << "garbage";
  std::filesystem::create_directories(root / "runs/broken");
  std::ofstream(root / "runs/broken/metrics.jsonl") << "garbage\n";
  const auto both = look(root, split("compare runs/a runs/broken --json"));
  CHECK(both.status == 0);
  CHECK(json::parse(both.output).at("runs").size() == 1);
  CHECK_THAT(both.errors, Contains("evaluation.json: is no") &&
                              Contains("runs/broken/metrics.jsonl:1:") &&
                              Contains("the run is left out"));
  CHECK(look(root, split("compare runs/broken")).status == 2);
  const auto whole = look(root, split("compare runs"));
  CHECK(whole.status == 2);
  CHECK_THAT(whole.errors, Contains("has those of 2 runs in it; name them: runs/*"));
  CHECK_THAT(look(root, {"report"}).errors, Contains("<run_dir>/<run_name>"));
  CHECK_THAT(look(root, split("trace now runs/a --steps abc")).errors,
             Contains("--steps: must be a number, not 'abc'"));
}

TEST_CASE("a report takes the place of a page alone", "[cli][report]") {
  const Runs runs{{"a", ""}};
  runs.folder.write("recipe.yaml", "seed: 1\n");
  const auto outcome = run(runs.folder.path(), split("report runs/a --output recipe.yaml"));
  CHECK(outcome.status == 2);
  CHECK_THAT(outcome.errors,
             Contains("--output: recipe.yaml is there already, and is no page; name another file"));
  CHECK(text_in(runs.folder.path() / "recipe.yaml") == "seed: 1\n");
  for (int times = 0; times < 2; ++times)
    CHECK(run(runs.folder.path(), split("report runs/a --output page.html")).status == 0);
}

TEST_CASE("a run that is named twice is shown once", "[cli][report]") {
  const Runs runs{{"a", ""}};
  const auto outcome = run(runs.folder.path(), split("compare runs/a runs/../runs/a --json"));
  CHECK_THAT(outcome.errors, Contains("runs/../runs/a: is named twice"));
  CHECK(json::parse(outcome.output).at("runs").size() == 1);
}

TEST_CASE("a browser opens the page of a run, and of five, and reads the log's numbers",
          "[cli][report][slow]") {
  const auto program = browser();
  if (program.empty()) return;
  const Runs runs{{"a", ""},
                  {"b", "--seed 2"},
                  {"c", "--algorithms none"},
                  {"d", "--optimizer adamw --lr 0.001"},
                  {"e<b>\"'&", "--max_duration 3ep"}};
  const auto one = opened(runs.folder, program, "runs/a/report.html");
  CHECK(one.at("broken") == 0);
  CHECK(one.at("images") >= 24);
  CHECK(one.at("wide") == false);
  std::set<std::string> seen;
  for (const auto& chart : one.at("charts")) {
    CHECK(chart.at("rows") == chart.at("lines").size());
    CHECK(chart.at("hidden") == true);
    CHECK(chart.at("shown") == 3);
    CHECK(chart.at("against") == "batch");
    CHECK(chart.at("width") > 300);
    for (const auto& line : chart.at("lines")) {
      const std::string metric = line.at("metric");
      seen.insert(metric);
      if (metric != "metrics/train/Accuracy")  // of epochs alone
        CHECK(numbers_of(line) == logged(runs.of("a"), metric));
    }
  }
  for (const char* metric : {"loss/train", "metrics/train/Accuracy", "metrics/eval/Accuracy",
                             "metrics/eval/CrossEntropy", "lr", "throughput/samples_per_sec",
                             "progressive_resizing/width", "time/wait_fraction"})
    CHECK(seen.contains(metric));

  std::vector<std::string> words{"report"};
  for (const char* name : {"a", "b", "c", "d", "e<b>\"'&"}) words.push_back(runs.of(name).string());
  words.insert(words.end(), {"--output", "five.html"});
  REQUIRE(run(runs.folder.path(), words).status == 0);
  const auto five = opened(runs.folder, program, "five.html");
  CHECK(five.at("broken") == 0);
  size_t lines = 0;
  for (const auto& chart : five.at("charts"))
    for (const auto& line : chart.at("lines")) {
      const std::string metric = line.at("metric"), name = line.at("name");
      if (metric == "loss/train") ++lines;
      if (metric != "metrics/train/Accuracy")
        CHECK(numbers_of(line) == logged(runs.of(name), metric));
    }
  CHECK(lines == 5);
}

TEST_CASE("compare shows what runs came to and differ in", "[cli][report][slow]") {
  const Runs runs{{"a", ""}, {"b", "--lr 0.05"}};
  const auto text = look(runs.folder.path(), split("compare runs/a runs/b"));
  INFO(text.errors);
  CHECK(text.status == 0);
  CHECK_THAT(text.output, Contains("completed") && Contains("evaluation accuracy") &&
                              Contains("optimizer.decoupled_sgdw.lr"));
  fs::remove(runs.of("b") / "summary.json");
  const auto outcome = look(runs.folder.path(), split("compare runs/a runs/b --json"));
  const auto table = json::parse(outcome.output);
  const auto summary = json::parse(text_in(runs.of("a") / "summary.json"));
  const auto& first = table.at("runs").at(0);
  CHECK(first.at("batches") == summary.at("batches"));
  CHECK(first.at("metrics").at("loss/train").at("last") == summary.at("metrics").at("loss/train"));
  CHECK(first.at("metrics").at("loss/train").at("best_batch") ==
        summary.at("best_metrics").at("loss/train").at("batch"));
  CHECK(table.at("runs").at(1).at("status") == "killed");
  CHECK(table.at("runs").at(1).at("missing") == json{"summary.json"});
  CHECK(table.at("differences") == json{{"optimizer.decoupled_sgdw.lr", {"0.2", "0.05"}}});
}

TEST_CASE("watch draws a run in a terminal, follows its size, and leaves it as it was",
          "[cli][report]") {
  const Runs runs{{"a", ""}};
  const auto words = split("watch runs/a");
  {
    OnTerminal watch(runs.folder.path(), words);
    const auto screen = watch.until("q leaves");
    CHECK_THAT(screen, Contains("\x1b[?1049h") && Contains("completed") && Contains("100%") &&
                           Contains("Loss") && Contains("epoch 2"));
    CHECK_FALSE(watch.echoes());
    watch.resize(50, 140);
    CHECK_THAT(watch.until("Images a second"), Contains("Learning rate"));
    watch.press('q');
    CHECK_THAT(watch.until("\x1b[?1049l"), Contains("\x1b[?25h"));
    CHECK(watch.wait() == 0);
    CHECK(watch.echoes());
  }
  OnTerminal watch(runs.folder.path(), words);
  watch.until("q leaves");
  watch.press(3);
  CHECK(watch.wait() == 0);
  OnTerminal stopped(runs.folder.path(), words);
  stopped.until("q leaves");
  stopped.signal(SIGTERM);
  CHECK(stopped.wait() == 143);
  CHECK(stopped.echoes());
}

TEST_CASE("watch draws without colours where NO_COLOR is set", "[cli][report]") {
  const Runs runs{{"a", ""}};
  const auto shown = [&](const char* variable) {
    setenv(variable, "1", 1);
    OnTerminal watch(runs.folder.path(), split("watch runs/a"));
    unsetenv(variable);
    const auto screen = watch.until("q leaves");
    watch.press('q');
    CHECK(watch.wait() == 0);
    return screen;
  };
  CHECK_THAT(shown("CLICOLOR_FORCE"), Contains("\x1b[1ma\x1b[22m"));
  CHECK_FALSE(std::regex_search(shown("NO_COLOR"), std::regex("\x1b\\[[0-9;]*m")));
}

TEST_CASE("what shows no run is not watched", "[cli][report]") {
  const TemporaryFolder folder;
  fs::create_directories(folder / "runs/empty");
  const auto outcome = run(folder.path(), split("watch runs/empty"));
  CHECK(outcome.status == 2);
  CHECK_THAT(outcome.errors, Contains("runs/empty: is no run's folder"));
}

TEST_CASE("watch waits for a run that is not there yet", "[cli][report]") {
  const TemporaryFolder folder;
  OnTerminal watch(folder.path(), split("watch runs/a"));
  CHECK_THAT(watch.until("not there yet"), Contains("waiting for runs/a"));
  REQUIRE(run(folder.path(), short_training("--run_name a")).status == 0);
  CHECK_THAT(watch.until("q leaves"), Contains("\x1b[?1049h"));
  watch.press('q');
  CHECK(watch.wait() == 0);
  OnTerminal stopped(folder.path(), split("watch runs/none"));
  stopped.until("Ctrl-C leaves");
  stopped.signal(SIGINT);
  CHECK(stopped.wait() == 130);
}

TEST_CASE("watch without a terminal tells of each epoch until the run ends", "[cli][report]") {
  const TemporaryFolder folder;
  const Process going(folder.path(), short_training("--run_name a --max_duration 4ep"));
  for (int i = 0; i < 600 && !fs::exists(folder / "runs/a/hparams.yaml"); ++i) usleep(50'000);
  const auto watched = run(folder.path(), split("watch runs/a"));
  INFO(watched.errors);
  CHECK(watched.status == 0);
  CHECK_THAT(watched.output, Contains("eval   epoch 1, step 4") && Contains("epoch  epoch 4") &&
                                 Contains("a: completed"));
  CHECK(going.wait().status == 0);
}

}  // namespace composer::report_test

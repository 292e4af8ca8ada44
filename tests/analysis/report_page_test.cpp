#include <catch2/catch.hpp>

#include "analysis/line_chart.h"
#include "analysis/report.h"
#include "analysis/time_parts.h"
#include "tests/analysis/run_files.h"

namespace composer {
namespace {

using Catch::Contains;
using nlohmann::json;

/// What the page's scripts that begin like this hold.
std::vector<json> data_of(const std::string& page, const std::string& opening) {
  std::vector<json> all;
  for (size_t at = 0; (at = page.find(opening, at)) != std::string::npos;) {
    at += opening.size();
    all.push_back(json::parse(page.substr(at, page.find("</script>", at) - at)));
  }
  return all;
}

std::vector<json> charts_in(const std::string& page) {
  return data_of(page, R"(<script type="application/json" class="data">)");
}

/// The line of a metric in the page's charts; null where none has it.
json line_of(const std::string& page, const std::string& metric) {
  for (const auto& chart : charts_in(page))
    for (const auto& line : chart.at("lines"))
      if (line.at("metric") == metric) return line;
  return nullptr;
}

TEST_CASE("the numbers of a page are those of the run's log", "[report]") {
  const TemporaryFolder folder;
  const RunFiles files(folder, "run");
  files.write_summary(0.75);
  const auto run = read_run(files.path);
  const auto page = report_page({run});
  const auto loss = line_of(page, "loss/train");
  REQUIRE(loss.is_object());
  CHECK(loss.at("batch") == json{1, 2, 3, 4, 5, 6});
  CHECK(loss.at("sample") == json{16, 32, 48, 64, 80, 96});
  CHECK(loss.at("seconds") == json{0.5, 1.0, 1.5, 2.0, 2.5, 3.0});
  for (int batch = 1; batch <= 6; ++batch)
    CHECK(loss.at("value").at(static_cast<size_t>(batch - 1)) == RunFiles::loss(batch));
  CHECK(line_of(page, "metrics/eval/Accuracy").at("value") == json{0.1, 0.2, 0.3});
  CHECK_THAT(page, Contains("completed") && Contains("75.0 %") && Contains("Learning rate"));
  for (const char* outside : {"http://", "https://", "src=\"/", "@import", "url("}) {
    auto without_names = page;
    const std::string svg = "http://www.w3.org/2000/svg";
    for (size_t at = 0; (at = without_names.find(svg)) != std::string::npos;)
      without_names.erase(at, svg.size());
    CHECK_THAT(without_names, !Contains(outside));
  }
}

TEST_CASE("where the time went is the sum of what was logged", "[report]") {
  const TemporaryFolder folder;
  const RunFiles files(folder, "run");
  const auto run = read_run(files.path);
  const auto parts = time_parts_of(run);
  REQUIRE(parts.size() == 4);
  CHECK(parts[0].name == "waiting for data");
  CHECK(parts[0].seconds == 3 * 0.0625);
  CHECK(parts[1].seconds == 3 * 0.25);
  CHECK(parts[2].name == "blurpool");
  const auto data = data_of(report_page({run}), R"(<script type="application/json" id="time">)");
  REQUIRE(data.size() == 1);
  CHECK(data[0].at(0).at("seconds").at("forward") == 0.75);
}

TEST_CASE("a run of several ranks says which one was slow", "[report]") {
  const TemporaryFolder folder;
  const RunFiles files(folder, "run", 2);
  std::string log;
  for (int batch = 1; batch <= 4; ++batch)
    log += RunFiles::line(
        "batch", batch,
        {{"ranks/slowest", batch == 2 ? 1 : 3}, {"ranks/slowest_excess", 0.01 * batch}});
  files.write("metrics.jsonl", log);
  const auto ranks = stragglers_of(read_run(files.path));
  REQUIRE(ranks.size() == 2);
  CHECK(ranks[0].rank == 3);
  CHECK(ranks[0].share == 0.75);
  CHECK(ranks[0].excess == Approx(0.08 / 3));
  CHECK_THAT(time_section({read_run(files.path)}), Contains("rank 3 was the slowest 75.0 %"));
}

TEST_CASE("several runs share charts, and the page says what sets them apart", "[report]") {
  const TemporaryFolder folder;
  std::vector<Run> runs;
  for (const char* name : {"one", "two<b>"}) {
    const RunFiles files(folder, name);
    files.write("hparams.yaml", "seed: " + std::to_string(runs.size()) + "\n");
    runs.push_back(read_run(files.path));
  }
  const auto page = report_page(runs);
  for (const auto& chart : charts_in(page)) {
    REQUIRE(chart.at("lines").size() == 2);
    CHECK(chart.at("lines")[1].at("name") == "two<b>");
  }
  CHECK_THAT(page, Contains("two&lt;b&gt;") && !Contains("two<b>"));
  const auto differences =
      data_of(page, R"(<script type="application/json" id="recipe-differences">)");
  REQUIRE(differences.size() == 1);
  CHECK(differences[0].at("seed") == json{"0", "1"});
}

TEST_CASE("what a run left of its evaluation is shown", "[report]") {
  const TemporaryFolder folder;
  const RunFiles files(folder, "run");
  files.write("about.json", R"({"header": ["network: tiny, 12 parameters", "device: cpu"],
    "class_names": ["cat", "<dog>"], "surgery": [{"algorithm": "blurpool", "changes": ["conv1 -> BlurConv"]}],
    "batches_per_epoch": 2, "total_batches": 6})");
  files.write("evaluation.json",
              R"({"epoch": 3, "batch": 6, "samples": 12, "num_classes": 2, "all_ranks": true,
    "per_class": [0.5, 1.0], "confusion": [[0, 0, 3], [0, 1, 3], [1, 1, 6]],
    "wrong": [{"image": "images/wrong/ba6-00.png", "class": 0, "loss": 4.5, "probability": 0.011,
               "likely": [[1, 0.989], [0, 0.011]]}]})");
  files.write("images/wrong/ba6-00.png", "png");
  files.write("images/index.json",
              R"({"images": [{"file": "images/lost.png", "caption": "cat 0.70, <dog> 0.30"}]})");
  const auto page = report_page({read_run(files.path)});
  CHECK_THAT(page, Contains("data:image/png;base64,cG5n") && Contains("loss 4.5") &&
                       Contains("98.9 %") && Contains("&lt;dog&gt;") &&
                       Contains("cannot be read") && Contains("cat 0.70") &&
                       Contains("conv1 -&gt; BlurConv") && Contains("tiny, 12 parameters"));
  const auto cells = data_of(page, R"(<script type="application/json" class="confusion-cells">)");
  REQUIRE(cells.size() == 1);
  CHECK(cells[0] == json{{0, 0, 3}, {0, 1, 3}, {1, 1, 6}});
  CHECK_THAT(page, Contains("3 of 6") && Contains("cat taken for &lt;dog&gt;: 3 of 6"));
}

TEST_CASE("classes that an evaluation cannot have are told of", "[report]") {
  const TemporaryFolder folder;
  const RunFiles files(folder, "run");
  for (const char* cell : {"[2, 0, 1]", "[0, -1, 1]", "[0, 0, 0]"}) {
    files.write("evaluation.json",
                R"({"epoch": 3, "batch": 6, "num_classes": 2, "all_ranks": true, "wrong": [],
      "confusion": [)" +
                    std::string(cell) + "]}");
    CHECK_THROWS_WITH(read_run(files.path), Contains("is no evaluation.json of a run"));
  }
}

TEST_CASE("a run that has logged nothing, or nothing finite, has a page", "[report]") {
  const TemporaryFolder folder;
  const RunFiles empty(folder, "empty", 0), nan(folder, "nan", 0);
  nan.write("metrics.jsonl", RunFiles::line("batch", 1, {{"loss/train", "NaN"}}) +
                                 RunFiles::line("batch", 2, {{"loss/train", "Infinity"}}));
  CHECK_THAT(report_page({read_run(empty.path)}), Contains("killed"));
  CHECK(charts_in(report_page({read_run(nan.path)})).empty());
  CHECK(charts_in(report_page({read_run(nan.path), read_run(empty.path)})).empty());
}

TEST_CASE("gaps of a curve are gaps of its path", "[report]") {
  LineChart chart;
  chart.title = "loss";
  chart.lines = {
      {"run",
       0,
       false,
       false,
       {"loss", {{1, 1, 1, 1.0}, {2, 2, 2, 2.0}, {3, 3, 3, NAN}, {4, 4, 4, 1.0}, {5, 5, 5, 2.0}}}}};
  const auto figure = figure_of(chart);
  const size_t at = figure.find("class=\"line\"");
  const auto path = figure.substr(at, figure.find("/>", at) - at);
  CHECK(std::ranges::count(path, 'M') == 2);
  CHECK(std::ranges::count(path, 'L') == 2);
  const auto data = charts_in(figure);
  CHECK(data[0].at("lines")[0].at("value") == json{1.0, 2.0, nullptr, 1.0, 2.0});
}

}  // namespace
}  // namespace composer

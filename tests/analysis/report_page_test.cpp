#include <catch2/catch.hpp>
#include <cmath>

#include "analysis/line_chart.h"
#include "analysis/picture_section.h"
#include "analysis/report.h"
#include "analysis/run_charts.h"
#include "analysis/time_parts.h"
#include "tests/analysis/run_files.h"

namespace composer::report_page_test {
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

TEST_CASE("a run that has logged no times has no column of them", "[report]") {
  const TemporaryFolder folder;
  const RunFiles one(folder, "one"), two(folder, "two", 1), three(folder, "three");
  const auto section = time_section({read_run(one.path), read_run(two.path), read_run(three.path)});
  CHECK_THAT(section,
             Contains(">one<") && Contains(">three<") && !Contains(">two<") && !Contains(">0 ms<"));
}

TEST_CASE("training metrics of a chart are all of whole epochs, or all of parts", "[report]") {
  const TemporaryFolder folder;
  const RunFiles whole(folder, "whole"), begun(folder, "begun", 0), later(folder, "later", 0);
  const auto batch = [](int number) {
    return RunFiles::line("batch", number, {{"metrics/train/Accuracy", number / 8.0}});
  };
  begun.write("metrics.jsonl", batch(1) + batch(2));
  later.write("metrics.jsonl", batch(1) + batch(2) +
                                   RunFiles::line("epoch", 2, {{"metrics/train/Accuracy", 0.25}}) +
                                   batch(3));
  const auto chart = [&](std::vector<Run> runs) {
    for (const auto& one : charts_of(runs).main)
      if (one.title == "Training accuracy") return one;
    return LineChart();
  };
  const auto mixed = chart({read_run(whole.path), read_run(begun.path), read_run(later.path)});
  REQUIRE(mixed.lines.size() == 2);
  CHECK(mixed.lines[0].curve.points.size() == 3);
  CHECK(mixed.lines[1].curve.points.size() == 1);
  CHECK(mixed.note == "training: the mean over each epoch; none of begun has ended");
  const auto parts = chart({read_run(begun.path), read_run(later.path)});
  REQUIRE(parts.lines.size() == 2);
  CHECK(parts.lines[1].curve.points.size() == 3);
  CHECK(parts.note == "training: the mean since the epoch's beginning");
}

TEST_CASE("metrics of further evaluation sets stand beside those of the main one", "[report]") {
  const TemporaryFolder folder;
  const RunFiles one(folder, "one", 0), two(folder, "two", 0);
  const auto evaluated = [](int batch) {
    return RunFiles::line("eval", batch,
                          {{"metrics/eval/Accuracy", 0.5},
                           {"metrics/eval/R2", 0.5},
                           {"metrics/v2/Accuracy", 0.25 + 0.001 * batch},
                           {"metrics/v2/R2", 0.125}});
  };
  for (const auto* run : {&one, &two}) run->write("metrics.jsonl", evaluated(2) + evaluated(4));
  const auto alone = charts_of(std::vector<Run>{read_run(one.path)});
  const auto accuracy = std::ranges::find(alone.main, "Accuracy", &LineChart::title);
  REQUIRE(accuracy != alone.main.end());
  REQUIRE(accuracy->lines.size() == 2);
  CHECK(accuracy->lines[1].name == "evaluation on v2");
  CHECK(accuracy->lines[1].color != accuracy->lines[0].color);
  CHECK(alone.others.empty());
  const auto both = charts_of(std::vector<Run>{read_run(one.path), read_run(two.path)});
  for (const char* title : {"Evaluation accuracy", "Evaluation accuracy on v2", "Evaluation R2",
                            "Evaluation R2 on v2"}) {
    CAPTURE(title);
    CHECK(std::ranges::count(both.main, title, &LineChart::title) == 1);
  }
  CHECK_THAT(report_page({read_run(one.path)}), Contains("evaluation accuracy on v2"));
}

TEST_CASE("where one line of a metric is noisy, all of the chart are drawn alike", "[report]") {
  LineChart chart;
  for (const int64_t size : {800, 40}) {
    auto& line = chart.lines.emplace_back();
    line.curve.metric = "loss/train";
    for (int64_t i = 0; i < size; ++i)
      line.curve.points.push_back({i, i, static_cast<double>(i), i % 2 == 0 ? 1.0 : 3.0});
  }
  CHECK(trend_reach(chart, chart.lines[1]) == 10);
  auto evaluation = chart.lines[1];
  evaluation.curve.metric = "metrics/eval/CrossEntropy";
  chart.lines.push_back(evaluation);
  CHECK(trend_reach(chart, chart.lines[2]) == 0);
  const auto figure = figure_of(chart);
  size_t faint = 0;
  for (size_t at = 0; (at = figure.find("\"line faint\"", at)) != std::string::npos; ++at) ++faint;
  CHECK(faint == 6);  // two lines against each of three
}

TEST_CASE("many runs' outcomes are in tables that fit", "[report]") {
  const TemporaryFolder folder;
  std::vector<Run> runs;
  for (int i = 0; i < 7; ++i)
    runs.push_back(read_run(RunFiles(folder, "run" + std::to_string(i)).path));
  const auto page = report_page(runs);
  size_t tables = 0;
  for (size_t at = 0; (at = page.find("<table class=\"outcomes\"", at)) != std::string::npos; ++at)
    ++tables;
  CHECK(tables == 2);
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
               "likely": [[1, 0.989], [0, 0.011]], "sample": 7, "path": "val/<cat>/3.jpg"}]})");
  files.write("images/wrong/ba6-00.png", "png");
  files.write("images/index.json",
              R"({"images": [{"file": "images/lost.png", "caption": "cat 0.70, <dog> 0.30"}]})");
  const auto page = report_page({read_run(files.path)});
  CHECK_THAT(page, Contains("data:image/png;base64,cG5n") && Contains("loss 4.5") &&
                       Contains("98.9 %") && Contains("&lt;dog&gt;") &&
                       Contains("cannot be read") && Contains("cat 0.70") &&
                       Contains("val/&lt;cat&gt;/3.jpg, sample 7") &&
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
    const auto run = read_run(files.path);
    CHECK_FALSE(run.evaluation);
    REQUIRE(run.damage.size() == 1);
    CHECK_THAT(run.damage[0], Contains("is no evaluation.json of a run"));
  }
}

TEST_CASE("a run that has logged nothing, or nothing finite, has a page", "[report]") {
  const TemporaryFolder folder;
  const RunFiles empty(folder, "empty", 0), nan(folder, "nan", 0);
  nan.write("metrics.jsonl", RunFiles::line("batch", 1, {{"loss/train", "NaN"}}) +
                                 RunFiles::line("batch", 2, {{"loss/train", "Infinity"}}));
  CHECK_THAT(report_page({read_run(empty.path)}), Contains("killed"));
  for (const auto& runs : {std::vector<Run>{read_run(nan.path)},
                           std::vector<Run>{read_run(nan.path), read_run(empty.path)}}) {
    const auto page = report_page(runs);
    REQUIRE(charts_in(page).size() == 1);
    CHECK(line_of(page, "loss/train").at("value") == json{nullptr, nullptr});
    CHECK_THAT(page, Contains(">not finite throughout<"));
  }
}

TEST_CASE("a curve that stops being finite has a cross there", "[report]") {
  LineChart chart;
  for (int64_t batch = 1; batch <= 9; ++batch)
    chart.lines.resize(1),
        chart.lines[0].curve.points.push_back({batch, batch, 1, batch < 6 ? 1.0 : NAN});
  const auto figure = figure_of(chart);
  CHECK_THAT(figure, Contains("class=\"break\"") && Contains("not finite from step 6"));
  chart.lines[0].curve.points.resize(5);
  CHECK_THAT(figure_of(chart), !Contains("class=\"break\""));
}

TEST_CASE("the pointer finds its place on the time axis of a long run", "[report]") {
  for (const auto& [seconds, unit] :
       {std::pair{1e4, "\"3600\""}, {4e5, "\"86400\""}, {100.0, "\"1\""}}) {
    LineChart chart;
    chart.lines = {{"run", 0, false, false, {"loss", {{1, 1, 1, 1.0}, {2, 2, seconds, 2.0}}}}};
    CHECK_THAT(figure_of(chart),
               Contains(std::string("data-against=\"seconds\" data-unit=") + unit));
  }
}

TEST_CASE("charts of a page have one course, the run's", "[report]") {
  const TemporaryFolder folder;
  const auto page = report_page({read_run(RunFiles(folder, "run").path)});
  size_t courses = 0;
  for (size_t at = 0; (at = page.find("data-against=\"batch\"", at)) != std::string::npos; ++at) {
    CHECK(page.substr(page.find("data-course", at), 22) == "data-course=\"[0.0,6.0]");
    ++courses;
  }
  CHECK(courses >= 3);
}

TEST_CASE("what begins at 0 is never logarithmic, and losses are from 50 times on", "[report]") {
  const TemporaryFolder folder;
  const RunFiles files(folder, "run", 0);
  std::string log;
  for (int batch = 1; batch <= 3; ++batch)
    log += RunFiles::line("batch", batch,
                          {{"lr", std::pow(0.01, batch)}, {"loss/train", batch == 2 ? 433 : 2}});
  files.write("metrics.jsonl", log);
  const auto page = report_page({read_run(files.path)});
  const auto scale_of = [&](const std::string& title) {
    const size_t at = page.find("data-scale=\"", page.find("<figcaption>" + title)) + 12;
    return page.substr(at, page.find('"', at) - at);
  };
  CHECK(scale_of("Learning rate") == "linear");
  CHECK(scale_of("Loss") == "logarithmic");
}

TEST_CASE("a curve alone says whose it is where others could be meant", "[report]") {
  const TemporaryFolder folder;
  const RunFiles one(folder, "one", 0), two(folder, "two", 0);
  one.write("metrics.jsonl",
            RunFiles::line("batch", 1, {{"loss/train", 1}, {"memory/rss", 2}}) +
                RunFiles::line("batch", 2, {{"loss/train", 2}, {"memory/rss", 3}}));
  CHECK_THAT(report_page({read_run(one.path)}),
             Contains("<ul class=\"legend\"><li class=\"c0\"><i></i>training</li></ul>"));
  const auto page = report_page({read_run(two.path), read_run(one.path)});
  CHECK_THAT(page, Contains("<ul class=\"legend\"><li class=\"c1\"><i></i>one</li></ul>"));
}

TEST_CASE("a curve that others hide is drawn wider", "[report]") {
  LineChart chart;
  const Curve curve{"lr", {{1, 1, 1, 1.0}, {2, 2, 2, 2.0}}};
  chart.lines = {{"a", 0, false, false, curve}, {"b", 1, false, false, curve}};
  CHECK_THAT(figure_of(chart), Contains("stroke-width:3.6"));
  chart.lines[1].curve.points[1].value = chart.lines[1].curve.points[0].value = 3;
  CHECK_THAT(figure_of(chart), !Contains("stroke-width"));
}

TEST_CASE("sizes are in their units, image sizes in steps of their own", "[report]") {
  const TemporaryFolder folder;
  const RunFiles files(folder, "run", 0);
  std::string log;
  for (int batch = 1; batch <= 4; ++batch)
    log += RunFiles::line("batch", batch,
                          {{"progressive_resizing/width", batch < 3 ? 18 : 32},
                           {"progressive_resizing/height", batch < 3 ? 18 : 32},
                           {"memory/rss", (300 << 20) + batch * (10 << 20)}});
  files.write("metrics.jsonl", log);
  const auto page = report_page({read_run(files.path)});
  CHECK_THAT(page, Contains(">18 px<") && Contains(">32 px<") && !Contains(">20 px<") &&
                       Contains(">width and height<") && Contains(" MiB<") && Contains("H"));
}

TEST_CASE("names that are not UTF-8 are no obstacle", "[report]") {
  const TemporaryFolder folder;
  std::vector<Run> runs;
  for (const char* name : {"caf\xe9", "two"}) {
    const RunFiles files(folder, name);
    files.write("hparams.yaml", "seed: " + std::to_string(runs.size()) + "\n");
    runs.push_back(read_run(files.path));
  }
  const auto page = report_page(runs);
  CHECK(charts_in(page).at(0).at("lines").at(0).at("name") == "caf\xef\xbf\xbd");
}

TEST_CASE("what ended a run is under its title", "[report]") {
  const TemporaryFolder folder;
  const RunFiles files(folder, "run");
  files.write_summary(0.5);
  auto run = read_run(files.path);
  CHECK_THAT(report_page({run}), !Contains("class=\"ending"));
  run.summary->status = "failed", run.summary->message = "disk <full>";
  CHECK_THAT(report_page({run}),
             Contains("class=\"ending failed\"") && Contains("<b>failed</b> disk &lt;full&gt;"));
  CHECK_THAT(report_page({run, run}), Contains("<b>run</b> disk &lt;full&gt;"));
  run.going_on = true;
  CHECK_THAT(report_page({run}), !Contains("class=\"ending"));
}

TEST_CASE("trifles of the time are the rest's, which comes last, and there is a total",
          "[report]") {
  Run run;
  run.name = "run";
  run.log = {{"epoch",
              1,
              1,
              1,
              1,
              {{"time/forward", 8.0},
               {"time/normalize", 0.001},
               {"time/algorithms/sam", 0.002},
               {"time/other", 1.0},
               {"time/warm", 1.0}}}};
  const auto text = time_section({run});
  CHECK_THAT(text, !Contains(">normalize<") && Contains(">sam") && Contains(">1 s<") &&
                       Contains("total") && Contains(">10 s<"));
  CHECK(text.find("warm<") < text.find("the rest<"));
  CHECK(data_of(text, R"(<script type="application/json" id="time">)")
            .at(0)
            .at(0)
            .at("seconds")
            .at("normalize") == 0.001);
}

TEST_CASE("long names of classes are short in the matrix, and whole beside it", "[report]") {
  Run run;
  run.description.emplace().class_names = {"a_class_with_a_name_that_does_not_end", "b"};
  run.evaluation.emplace().num_classes = 2;
  run.evaluation->confusion = {{0, 1, 3}, {1, 1, 4}};
  const auto text = confusion_section(run);
  CHECK_THAT(text, Contains("<title>a_class_with_a_name_that_does_not_end</title>"
                            "a_class_with_a_na…</text>"));
  run.description->class_names.clear();
  CHECK_THAT(confusion_section(run), Contains(">class 1<"));
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
}  // namespace composer::report_page_test

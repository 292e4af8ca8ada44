// What a study's runs come to, in tables, JSON and on its page.
#include "analysis/study.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "run_files.h"

namespace composer::study_test {

using Catch::Contains;

namespace {

const std::string accuracy = "metrics/eval/Accuracy";

StudyRun run_of(const std::string& name, int64_t seed, double metric, double seconds) {
  StudyRun run;
  run.name = name, run.seed = seed, run.status = "completed";
  run.metric = metric, run.seconds = seconds, run.samples = 96;
  run.images_per_second = 96 / seconds;
  run.peak_memory_bytes = 1 << 20;
  run.has_page = true;
  return run;
}

Variant variant_of(const std::string& name, const std::vector<double>& metrics, double seconds) {
  Variant variant{name};
  int64_t seed = 17;
  for (const double metric : metrics) {
    variant.runs.push_back(run_of(name + "-seed" + std::to_string(seed), seed, metric, seconds));
    ++seed;
  }
  return variant;
}

Study study_of(std::vector<Variant> variants) {
  Study study;
  study.title = "ablation of a recipe";
  study.metric = accuracy;
  study.variants = std::move(variants);
  return study;
}

const std::vector<std::string>& row_of(const StudyTable& table, const std::string& name) {
  for (const auto& row : table.rows)
    if (row[0] == name) return row;
  throw std::out_of_range(name);
}

}  // namespace

TEST_CASE("a run of a study is read from its folder", "[analysis][study]") {
  const TemporaryFolder folder;
  const RunFiles files(folder, "all-seed17");
  files.write_summary(0.3);
  const auto run = read_study_run(files.path, 17, accuracy, StudyTarget{accuracy, 0.2});
  CHECK(run.done());
  CHECK(run.name == "all-seed17");
  CHECK(run.metric == 0.3);
  CHECK(run.seconds == 3.0);
  CHECK(run.samples == 96);
  CHECK(run.images_per_second == 32.0);
  CHECK(run.peak_memory_bytes == 1 << 20);
  REQUIRE(run.reached);  // the evaluations say 0.1, 0.2 and 0.3
  CHECK(run.reached->sample == 64);
  CHECK(run.reached->seconds == 2.0);
  CHECK(run.curve.points.size() == 3);

  CHECK_FALSE(read_study_run(files.path, 17, accuracy, StudyTarget{accuracy, 0.5}).reached);
  // Losses are to fall.
  const auto loss = read_study_run(files.path, 17, accuracy,
                                   StudyTarget{"metrics/eval/CrossEntropy", RunFiles::loss(4) / 2});
  CHECK(loss.reached->sample == 64);
  CHECK(read_study_run(folder / "none", 17, accuracy, {}).status == "not started");
  std::filesystem::create_directories(folder / "begun");
  CHECK(read_study_run(folder / "begun", 17, accuracy, {}).status == "killed");
}

TEST_CASE("the table says what is beyond the noise", "[analysis][study]") {
  const auto study = study_of({variant_of("all", {0.90, 0.91, 0.92}, 10),
                               variant_of("without blurpool", {0.80, 0.81, 0.82}, 8),
                               variant_of("without ema", {0.90, 0.92, 0.91}, 9)});
  const auto table = table_of(study);
  CHECK(table.headings == std::vector<std::string>{"", "evaluation accuracy", "difference",
                                                   "beyond noise", "time", "images/s",
                                                   "peak memory"});
  CHECK(row_of(table, "all")[1] == "91.00 ± 1.00 %");
  CHECK(row_of(table, "all")[2].empty());
  CHECK(row_of(table, "without blurpool")[2] == "-10.00 ± 2.27 pp");
  CHECK(row_of(table, "without blurpool")[3] == "yes");
  CHECK(row_of(table, "without ema")[3] == "no");
  CHECK(table.marked == std::vector<bool>{false, true, false});
  CHECK_THAT(text_of(study), Contains("Welch") && Contains("percentage points"));
}

TEST_CASE("times of runs on a busy machine are marked", "[analysis][study]") {
  auto study = study_of({variant_of("all", {0.9, 0.91}, 10), variant_of("without ema", {0.8}, 10)});
  CHECK_THAT(text_of(study), !Contains("*"));
  study.variants[0].runs[0].others_share = 0.05;
  study.variants[1].runs[0].others_share = 0.48;
  study.target = StudyTarget{accuracy, 0.5};
  study.variants[1].runs[0].reached = Curve::Point{};
  const auto table = table_of(study);
  CHECK_FALSE(row_of(table, "all")[4].ends_with("*"));
  for (const size_t cell : std::initializer_list<size_t>{4, 5, 7})
    CHECK(row_of(table, "without ema")[cell].ends_with("*"));
  CHECK_THAT(text_of(study),
             Contains("*: the machine was busy meanwhile: other programs took 48 %"));
  CHECK(json_of(study)["variants"][1]["runs"][0]["others_share"] == 0.48);
}

TEST_CASE("with one seed the noise is said to be unknown", "[analysis][study]") {
  const auto study = study_of({variant_of("all", {0.9}, 10), variant_of("without ema", {0.8}, 10)});
  const auto table = table_of(study);
  CHECK(row_of(table, "without ema")[2] == "-10.00 pp");
  CHECK(row_of(table, "without ema")[3] == "unknown");
  CHECK_THAT(text_of(study), Contains("the noise is unknown"));
  CHECK(json_of(study)["variants"][1]["difference"]["beyond_noise"].is_null());
}

TEST_CASE("runs that failed are told and do not count", "[analysis][study]") {
  auto study = study_of({variant_of("all", {0.9, 0.91}, 10), variant_of("without ema", {0.8}, 10)});
  StudyRun failed;
  failed.name = "without-ema-seed18", failed.seed = 18;
  failed.status = "failed", failed.message = "the <disk> is full";
  study.variants[1].runs.push_back(failed);
  study.variants.push_back({"without b", {}, "b is needed by c"});
  CHECK(failed_runs(study) == 1);
  const auto text = text_of(study);
  CHECK_THAT(text, Contains("without-ema-seed18: failed: the <disk> is full"));
  CHECK_THAT(text, Contains("without b: not possible: b is needed by c"));
  const auto json = json_of(study);
  CHECK(json["failed"] == 1);
  CHECK(json["variants"][1]["metric"]["count"] == 1);
  CHECK(json["variants"][1]["runs"][1]["message"] == "the <disk> is full");
  CHECK(json["variants"][2]["impossible"] == "b is needed by c");
  const auto page = study_page(study, "runs");
  CHECK_THAT(page, Contains("the &lt;disk&gt; is full"));
  CHECK_THAT(page, !Contains("<disk>"));
  CHECK_THAT(page, Contains("href=\"runs/all-seed17/report.html\""));
  CHECK_THAT(page, !Contains("href=\"runs/without-ema-seed18"));
}

TEST_CASE("what two do together beyond what each does", "[analysis][study]") {
  auto study = study_of(
      {variant_of("all", {0.90, 0.91}, 10), variant_of("without a", {0.88, 0.89}, 10),
       variant_of("without b", {0.88, 0.89}, 10), variant_of("without a and b", {0.80, 0.81}, 10)});
  study.interactions = {{"a and b", {1, 2, 3}}};
  CHECK(contrast_of(study, study.interactions[0]).value == Approx(0.905 - 2 * 0.885 + 0.805));
  const auto table = interaction_table_of(study);
  CHECK(table.rows[0][1].starts_with("-6.00 ± "));
  CHECK(json_of(study)["interactions"][0]["name"] == "a and b");
}

TEST_CASE("the frontier has what nothing beats in less time", "[analysis][study]") {
  auto study = study_of({variant_of("slow", {0.90}, 40), variant_of("fast", {0.70}, 10),
                         variant_of("worse", {0.65}, 20), variant_of("middle", {0.80}, 20),
                         variant_of("same", {0.80}, 30)});
  study.compared = false;
  CHECK(frontier_of(study) == std::vector<size_t>{1, 3, 0});
  study.metric = "metrics/eval/CrossEntropy";  // smaller is better
  CHECK(frontier_of(study) == std::vector<size_t>{1, 2});
  study.price_per_hour = 36;
  CHECK(json_of(study)["variants"][0]["cost"] == Approx(0.4));
  CHECK_THAT(study_page(study, "runs"), Contains("against cost"));
}

}  // namespace composer::study_test

#include "analysis/run_log.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>

#include "composer/error.h"

namespace composer {
namespace {

std::filesystem::path written(const std::string& text) {
  const auto file = std::filesystem::temp_directory_path() / "composer_run_log_test.jsonl";
  std::ofstream(file) << text;
  return file;
}

const std::string batch =
    R"({"event":"batch","epoch":0,"batch":7,"sample":70,"seconds":1.5,"lr":0.1,"loss/train":"NaN"})";

TEST_CASE("a run's log is read, but for a line that is being written", "[run_log]") {
  const auto entries = read_run_log(written(batch + "\n" + batch.substr(0, 30)));
  REQUIRE(entries.size() == 1);
  CHECK(entries[0].event == "batch");
  CHECK(entries[0].batch == 7);
  CHECK(entries[0].seconds == 1.5);
  CHECK(entries[0].values.at("lr") == 0.1);
  CHECK(std::isnan(entries[0].values.at("loss/train")));
}

TEST_CASE("a damaged line of a run's log is named", "[run_log]") {
  const auto file = written(batch + "\n{\"event\":\n" + batch + "\n");
  CHECK_THROWS_WITH(read_run_log(file), Catch::Contains(".jsonl:2:"));
  CHECK_THROWS_AS(read_run_log("/nowhere/metrics.jsonl"), UserError);
}

}  // namespace
}  // namespace composer

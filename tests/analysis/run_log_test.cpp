#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>

#include "analysis/run.h"
#include "base/error.h"
#include "tests/temporary_folder.h"

namespace composer::run_log_test {
namespace {

RunLog log_of(const std::string& text) {
  const TemporaryFolder folder;
  const auto file = folder / "metrics.jsonl";
  std::ofstream(file) << text;
  return read_run_log(file);
}

const std::string batch =
    R"({"event":"batch","epoch":0,"batch":7,"sample":70,"seconds":1.5,"lr":0.1,"loss/train":"NaN"})";

TEST_CASE("a run's log is read, but for a line that is being written", "[run_log]") {
  const auto entries = log_of(batch + "\n" + batch.substr(0, 30)).entries;
  REQUIRE(entries.size() == 1);
  CHECK(entries[0].event == "batch");
  CHECK(entries[0].batch == 7);
  CHECK(entries[0].seconds == 1.5);
  CHECK(entries[0].values.at("lr") == 0.1);
  CHECK(std::isnan(entries[0].values.at("loss/train")));
}

TEST_CASE("damaged lines of a run's log are left out and counted", "[run_log]") {
  const auto log = log_of(batch + "\n{\"event\":\n" + batch + "\n[]\n");
  CHECK(log.entries.size() == 2);
  CHECK(log.damaged == 2);
  CHECK(log.first_damaged == 2);
  CHECK_THROWS_WITH(log_of("garbage\n\n"), Catch::Contains(".jsonl:1:"));
  CHECK_THROWS_AS(read_run_log("/nowhere/metrics.jsonl"), UserError);
}

}  // namespace
}  // namespace composer::run_log_test

#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/look.h"
#include "tests/temporary_folder.h"

namespace composer::trace_test {

using Catch::Contains;
namespace fs = std::filesystem;

namespace {

/// One step of 100 us: 60 of waiting, 40 of the algorithm that is called so in an event.
constexpr const char* trace = R"({"distributedInfo": {"rank": 0}, "traceEvents": [
  {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 1, "tid": 1, "ts": 0, "dur": 100},
  {"ph": "X", "cat": "user_annotation", "name": "dataloader", "pid": 1, "tid": 1, "ts": 0, "dur": 60},
  {"ph": "X", "cat": "user_annotation", "name": "before_forward", "pid": 1, "tid": 1, "ts": 60, "dur": 40},
  {"ph": "X", "cat": "user_annotation", "name": "mixup", "pid": 1, "tid": 1, "ts": 60, "dur": 30},
  {"ph": "X", "cat": "user_annotation", "name": "speed_monitor", "pid": 1, "tid": 1, "ts": 90, "dur": 10}
]})";

}  // namespace

TEST_CASE("composer trace says where a step's time went", "[cli]") {
  const TemporaryFolder folder;
  folder.write("rank0.1.pt.trace.json", trace);
  const auto words = run(folder.path(), split("trace analyze . --html page.html"));
  INFO(words.errors);
  CHECK(words.status == 0);
  CHECK_THAT(words.output, Contains("data wait") && Contains("60.0 %") &&
                               Contains("algorithm mixup") && Contains("callback speed_monitor"));
  CHECK(fs::exists(folder / "page.html"));

  const auto as_json = run(folder.path(), split("trace analyze rank0.1.pt.trace.json --json"));
  CHECK(as_json.status == 0);
  const auto json = nlohmann::json::parse(as_json.output);
  CHECK(json.at("ranks").at(0).at("host").at("steps").at(0).at("parts_ns").at("data_wait") ==
        60000);

  const auto diff = run(folder.path(), split("trace diff . . --json"));
  CHECK(diff.status == 0);
  CHECK(nlohmann::json::parse(diff.output).at("rows").size() == 4);
}

TEST_CASE("what a trainer adds by itself is a callback in its traces", "[cli]") {
  const TemporaryFolder folder;
  for (const std::string name : {"run_times", "ranks"}) {
    auto text = std::string(trace);
    text.replace(text.find("mixup"), 5, name);
    folder.write("rank0.json", text);
    CHECK_THAT(run(folder.path(), split("trace analyze .")).output, Contains("callback " + name));
  }
}

TEST_CASE("what cannot be written to standard output fails", "[cli]") {
  const TemporaryFolder folder;
  folder.write("rank0.json", trace);
  const auto full =
      run(folder.path(), {"-c", "exec " PROGRAM " trace analyze . >/dev/full"}, "/bin/sh");
  CHECK(full.status == 1);
  CHECK_THAT(full.errors, Contains("standard output cannot be written"));
}

TEST_CASE("composer trace refuses what is no trace", "[cli][slow]") {
  const TemporaryFolder folder;
  folder.write("rank0.json", "{\"traceEvents\": 3}");
  const auto refused = [&](const std::string& words, const std::string& message) {
    const auto outcome = look(folder.path(), split(words));
    CHECK(outcome.status == 2);
    CHECK_THAT(outcome.errors, Contains(message));
  };
  refused("trace", "which action?");
  refused("trace analyse .", "unknown action 'analyse'");
  refused("trace analyze rank0.json", "rank0.json: at byte 16: no trace: expected an array");
  refused("trace analyze none", "none: does not exist; give a trace");
  refused("trace analyze . --html rank0.json", "--html: rank0.json is there already, and is no");
  refused("trace analyze . --kernels 0", "--kernels: must be at least 1");
  refused("trace analyze . --kernel_delay_us 1e300", "--kernel_delay_us: must be in [0, 1e12]");
  refused("trace analyze . --kernel_delay_us nan", "--kernel_delay_us: must be in [0, 1e12]");
  refused("trace diff . . --device tpu", "--device: 'tpu' is none of cpu, gpu");
}

}  // namespace composer::trace_test

// Traces as Kineto leaves them, and as they are kept.
#include "nn/profiling/trace_file.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "base/error.h"
#include "read_trace.h"
#include "tests/temporary_folder.h"

namespace composer::trace_file_test {

namespace fs = std::filesystem;

namespace {

std::string event(const std::string& name, int row, const std::string& begin,
                  const std::string& duration) {
  return R"({"ph": "X", "cat": "cpu_op", "name": ")" + name + R"(", "pid": )" +
         std::to_string(getpid()) + R"(, "tid": )" + std::to_string(row) + R"(, "ts": )" + begin +
         R"(, "dur": )" + duration + R"(, "args": {"a": "}\"{"}})";
}

std::string name_of(const std::string& kind, int thread, const std::string& name) {
  return R"(, {"name": ")" + kind + R"(_name", "ph": "M", "ts": 1, "pid": )" +
         std::to_string(getpid()) + R"(, "tid": )" + std::to_string(thread) +
         R"(, "args": {"name": ")" + name + R"("}})";
}

std::string flow(const std::string& phase, int row, const std::string& time) {
  return R"(, {"ph": ")" + phase + R"(", "id": 1, "cat": "ac2g", "name": "ac2g", "pid": )" +
         std::to_string(getpid()) + R"(, "tid": )" + std::to_string(row) + R"(, "ts": )" + time +
         "}";
}

/// Of a file with these events.
ReadTrace kept(const std::string& events) {
  const TemporaryFolder folder;
  std::ofstream(folder / "raw.json")
      << R"({"schemaVersion": 1, "traceEvents": [)" << events << "]}";
  compress_trace(folder / "raw.json", folder / "trace.gz", {});
  return ReadTrace(folder / "trace.gz");
}

int64_t row_of(const ReadTrace& trace, const std::string& name) {
  return std::ranges::find(trace.slices(), name, &TraceSlice::name)->row;
}

}  // namespace

TEST_CASE("ranges that a viewer could not show in a row get rows of their own", "[profiler]") {
  const TemporaryFolder folder;
  {
    std::ofstream file(folder / "raw.json");
    file << R"({"schemaVersion": 1, "baseTimeNanoseconds": 1000000, "traceEvents": [)"
         << event("backward", 7, "10.000", "20.000") << ", "
         << event("gloo:all_reduce", 7, "12.001", "50.5") << ", "
         << event("gloo:all_reduce", 7, "13", "40") << ", " << event("copy", 7, "29.000", "1.000")
         << ", " << event("next", 7, "30.000", "5.250") << ", " << event("late", 7, "34", "9")
         << name_of("process", 0, "prog") << name_of("thread", 7, "thread 7 (prog)")
         << name_of("thread", 7, "thread 7 (right)") << name_of("thread", 7, "thread 7 (prog)")
         << R"(], "traceName": "x"})";
  }
  compress_trace(folder / "raw.json", folder / "trace.gz",
                 {{2'000'500, {1, 2, 3, 4, 5}}, {3'000'000, {5, 4, 3, 2, 1}}});
  const ReadTrace trace(folder / "trace.gz");
  CHECK(trace.overlap() == "");
  CHECK(trace.slices().size() == 6);
  CHECK(trace.count("gloo:all_reduce") == 2);
  CHECK(trace.rows_with("gloo:all_reduce") == std::set<std::string>{"communication of thread 7"});
  CHECK(trace.rows_with("backward") == std::set<std::string>{"thread 7 (right)"});
  const auto row = [&](const std::string& name) {
    return std::ranges::find(trace.slices(), name, &TraceSlice::name)->row;
  };
  CHECK(row("copy") == 7);
  CHECK(row("next") == 7);
  CHECK(row("late") != 7);
  CHECK(trace.json()["traceName"] == "x");
  std::vector<nlohmann::json> counters;
  for (const auto& one : trace.json()["traceEvents"])
    if (one["ph"] == "C") counters.push_back(one);
  REQUIRE(counters.size() == 2);
  CHECK(counters[0]["ts"] == 1000.5);
  CHECK(counters[0]["args"] ==
        nlohmann::json{
            {"weights", 1}, {"gradients", 2}, {"optimizer", 3}, {"activations", 4}, {"input", 5}});

  std::ofstream(folder / "broken.json") << R"({"traceEvents": [{"ph": "X")";
  CHECK_THROWS_AS(compress_trace(folder / "broken.json", folder / "broken.gz", {}), RunError);
  CHECK_FALSE(fs::exists(folder / "broken.gz"));
}

TEST_CASE("rows are named by what is in them, and flows stay with it", "[profiler]") {
  const auto trace = kept(event("op", 7, "10.000", "20.000") + ", " +
                          event("cudaLaunchKernel", 7, "25.125", "10.000") + ", " +
                          event("nccl:all_reduce", 7, "26.000", "3.000") + flow("s", 7, "25.125") +
                          flow("f", 7, "10.000") + flow("f", 8, "25.125"));
  CHECK(trace.overlap() == "");
  CHECK(trace.rows_with("cudaLaunchKernel") == std::set<std::string>{"beside thread 7"});
  CHECK(trace.rows_with("nccl:all_reduce") == std::set<std::string>{"communication of thread 7"});
  std::vector<int64_t> rows;
  for (const auto& one : trace.json()["traceEvents"])
    if (one["ph"] == "s" || one["ph"] == "f") rows.push_back(one["tid"]);
  CHECK(rows == std::vector<int64_t>{row_of(trace, "cudaLaunchKernel"), 7, 8});
}

TEST_CASE("a thread without a name has that of its first range", "[profiler]") {
  const auto trace =
      kept(event("inner", 8, "11", "1") + ", " + event("write \\\"it\\\"", 8, "11", "5") + ", " +
           event("op", 7, "10", "1") + name_of("thread", 7, "thread 7 (right)"));
  CHECK(trace.row_name(8) == "thread 8 (write \"it\")");
  CHECK(trace.row_name(7) == "thread 7 (right)");
}

}  // namespace composer::trace_file_test

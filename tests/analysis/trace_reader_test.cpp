#include "analysis/trace/trace_reader.h"

#include <catch2/catch.hpp>
#include <ctime>

#include "analysis/trace/json_cursor.h"
#include "analysis/trace/report_section.h"
#include "analysis/trace/trace_files.h"
#include "base/error.h"
#include "tests/analysis/traces.h"

namespace composer::trace_reader_test {
namespace {

std::string small_trace() {
  return TraceText()
      .step(3, "100.001", "50.5")
      .operation("aten::add", "101", "2.25", "[[2, 3], []]")
      .work("gemm<float>(int)", "102", "110.125", "7", 7)
      .of_rank(5);
}

TEST_CASE("nanoseconds are those of the digits, not of a double", "[trace]") {
  CHECK(nanoseconds_of("1712195495984501.132") == 1712195495984501132);
  CHECK(nanoseconds_of("0.001") == 1);
  CHECK(nanoseconds_of("-1.5") == -1500);
  CHECK(nanoseconds_of("28") == 28000);
  CHECK(nanoseconds_of("0.0005") == 1);
  CHECK(nanoseconds_of("4512792394000.17149999") == 4512792394000171);
  CHECK(nanoseconds_of("1.5e+3") == 1500000);
  CHECK_THROWS_AS(nanoseconds_of("1e300"), BadJson);
  CHECK_THROWS_AS(nanoseconds_of("soon"), BadJson);
  CHECK_THROWS_AS(nanoseconds_of("99999999999999999999"), BadJson);
  CHECK_THROWS_AS(nanoseconds_of(""), BadJson);
  CHECK(integer_of("7.0", -1) == 7);
  CHECK(integer_of("\"12\"", -1) == 12);
  for (const auto* none : {"7.5", "7.", "null", ".0", "7.0x"}) CHECK(integer_of(none, -1) == -1);
}

TEST_CASE("a trace is read, whether packed or not", "[trace]") {
  const TraceFolder folder;
  const bool packed = GENERATE(false, true);
  const auto trace = read_trace(packed ? folder.write_gzip("t.json.gz", small_trace())
                                       : folder.write("t.json", small_trace()));
  CHECK(trace.rank == 5);
  CHECK(trace.base_ns == 1790857026000000000);
  CHECK(trace.bytes == static_cast<int64_t>(small_trace().size()));
  CHECK(trace.warnings.empty());
  REQUIRE(trace.events.size() == 4);
  CHECK(trace.events[0].profiler_step);
  CHECK(trace.events[0].start_ns == 100001);
  CHECK(trace.events[0].duration_ns == 50500);
  CHECK(trace.name_of(trace.events[1]) == "aten::add");
  CHECK(trace.names[trace.events[1].detail] == "[[2, 3], []]");
  CHECK(trace.events[2].category == EventCategory::runtime);
  CHECK(trace.events[2].correlation == trace.events[3].correlation);
  CHECK(trace.events[3].stream == 7);
  CHECK(trace.events[3].start_ns == 110125);
}

TEST_CASE("an array of events is a trace; escapes are read; other events are left out", "[trace]") {
  const TraceFolder folder;
  const auto trace = read_trace(folder.write(
      "t.json", TraceText()
                    .operation(R"(a\"b\\\u00e9\ud83d\ude00\n)", "1", "2")
                    .add(R"("ph": "i", "cat": "cpu_instant_event", "name": "x", "ts": 1)")
                    .add(R"("ph": "X", "cat": "Trace", "name": "x", "ts": 1, "dur": 5)")
                    .add(R"("ph": "M", "name": "thread_name", "pid": 100, "tid": 1,)"
                         R"( "args": {"name": "loader", "odd": [NaN, {"a]": "}"}]})")
                    .array()));
  REQUIRE(trace.events.size() == 1);
  CHECK(trace.rank == -1);
  CHECK(trace.name_of(trace.events[0]) == "a\"b\\é😀\n");
  CHECK(trace.lanes[trace.events[0].lane].name == "loader");
}

TEST_CASE("as HTA, starts round up and ends down", "[trace]") {
  const TraceFolder folder;
  const auto trace =
      read_trace(folder.write("t.json", small_trace()), TraceTimes::rounded_microseconds);
  CHECK(trace.events[0].start_ns == 101000);
  CHECK(trace.events[0].end_ns() == 150000);
}

TEST_CASE("a negative duration is taken for 0, with a warning", "[trace]") {
  const TraceFolder folder;
  const bool as_hta = GENERATE(false, true);
  const auto file = folder.write("rank0.json", TraceText()
                                                   .step(1, "100", "-50")
                                                   .range("forward", "60", "10")
                                                   .range("backward", "110", "10")
                                                   .operation("aten::add", "10", "-5")
                                                   .work("gemm", "20", "30", "-20")
                                                   .of_rank(0));
  const auto analysis = analyze_traces({file}, {.as_hta = as_hta}, {});
  const auto& rank = analysis.ranks.at(0);
  REQUIRE_FALSE(rank.warnings.empty());
  CHECK_THAT(rank.warnings[0],
             Catch::Contains("negative durations are taken for 0") && Catch::EndsWith(": 3"));
  REQUIRE(rank.steps.steps.size() == 1);
  CHECK(rank.steps.steps[0].total_ns == 0);
  CHECK(rank.steps.steps[0].parts.empty());
  CHECK(rank.operators.self_ns == 0);
  CHECK(rank.device->temporal.span_ns == 0);
}

TEST_CASE("a step that rounding leaves nothing of is empty", "[trace]") {
  const TraceFolder folder;
  const auto file = folder.write(
      "rank0.json", TraceText().step(1, "0.25", "0.5").range("forward", "0.3", "0.2").of_rank(0));
  const auto steps = analyze_traces({file}, {.as_hta = true}, {}).ranks.at(0).steps;
  REQUIRE(steps.steps.size() == 1);
  CHECK(steps.steps[0].total_ns == 0);
  CHECK(steps.sum.parts.empty());
}

TEST_CASE("what is null is not there; streams may be written as decimals", "[trace]") {
  const TraceFolder folder;
  const auto text = TraceText()
                        .add(R"("ph": "X", "cat": "cpu_op", "name": "a", "ts": 1, "dur": null)")
                        .add(R"("ph": "X", "cat": "cpu_op", "name": "b", "ts": null, "dur": 1)")
                        .add(R"("ph": "X", "cat": "kernel", "name": "c", "ts": 1, "dur": 1, )"
                             R"("args": {"stream": 7.0, "correlation": 3.0})");
  const auto trace = read_trace(folder.write("t.json", text.array()));
  REQUIRE(trace.events.size() == 1);
  CHECK(trace.events[0].stream == 7);
  CHECK(trace.events[0].correlation == 3);
}

TEST_CASE("many threads take no longer than few", "[trace]") {
  constexpr int threads = 50000;
  std::string text = "[";
  for (int i = 0; i < 2 * threads; ++i)
    text += (i == 0 ? "" : ",") +
            std::string(R"({"ph":"X","cat":"cpu_op","name":"a","pid":1,"ts":1,"dur":1,"tid":)") +
            std::to_string(i % threads) + "}";
  const TraceFolder folder;
  const auto file = folder.write("t.json", text + "]");
  const auto begin = std::clock();
  CHECK(read_trace(file).lanes.size() == threads);
  CHECK(std::clock() - begin < 2 * CLOCKS_PER_SEC);
}

TEST_CASE("a trace longer than what is in memory is read whole", "[trace]") {
  TraceText text;
  constexpr int events = 60000;
  for (int i = 0; i < events; ++i)
    text.operation("aten::operator_" + std::to_string(i % 100), std::to_string(i) + ".250", "0.5",
                   "[[128, 64, 56, 56], [64, 64, 3, 3]]");
  const auto whole = text.of_rank(0);
  REQUIRE(whole.size() > (size_t{8} << 20));
  const TraceFolder folder;
  const auto trace = read_trace(folder.write("t.json", whole));
  REQUIRE(trace.events.size() == events);
  CHECK(trace.names.size() == 101);
  int64_t wrong = 0;
  for (int i = 0; i < events; ++i)
    wrong += trace.events[i].start_ns != int64_t{i} * 1000 + 250 ||
             trace.name_of(trace.events[i]) != "aten::operator_" + std::to_string(i % 100);
  CHECK(wrong == 0);
}

TEST_CASE("a trace that ends anywhere is read up to there, or refused", "[trace]") {
  const TraceFolder folder;
  const auto whole = small_trace();
  const size_t first_event = whole.find("[{") + 2;
  for (size_t length = 0; length < whole.size(); ++length) {
    const auto file = folder.write("t.json", whole.substr(0, length));
    if (length < first_event - 1) {
      CHECK_THROWS_WITH(read_trace(file), Catch::Contains("without traceEvents"));
      continue;
    }
    const auto trace = read_trace(file);
    CHECK(trace.truncated);
    REQUIRE(trace.warnings.size() == 1);
    CHECK_THAT(trace.warnings[0], Catch::Contains("at byte " + std::to_string(length)));
    CHECK(trace.events.size() <= 4);
  }
}

TEST_CASE("a packed trace that ends in the middle is read up to there", "[trace]") {
  TraceText text;
  for (int i = 0; i < 5000; ++i)
    text.operation("aten::op", std::to_string(i * 7919 % 100003), std::to_string(i * 31 % 997));
  const TraceFolder folder;
  const auto file = folder.write_gzip("t.json.gz", text.of_rank(0));
  std::filesystem::resize_file(file, std::filesystem::file_size(file) / 2);
  const auto trace = read_trace(file);
  CHECK(trace.truncated);
  CHECK(trace.events.size() > 1000);
  CHECK(trace.events.size() < 5000);
}

TEST_CASE("what is no trace is refused at its byte", "[trace]") {
  const TraceFolder folder;
  const auto refuses = [&](const std::string& text, const std::string& message) {
    CHECK_THROWS_WITH(read_trace(folder.write("t.json", text)), Catch::Contains(message));
    CHECK_THROWS_AS(read_trace(folder.write("t.json", text)), UserError);
  };
  refuses("hello", "t.json: at byte 0: no trace: expected an object or an array");
  refuses(R"({"traceEvents": 5})", "at byte 16: no trace: expected an array of events");
  refuses(R"({"traceEvents" [])", "at byte 15");
  refuses(R"({"traceEvents": [{"ph": "X"} {"ph": "X"}]})", "at byte 29");
  refuses(R"({"traceEvents": [{"ph": "X", "args": {"a": [1, 2}}]})", "expected ']'");
  refuses(R"([{"cat": "cpu_op", "name": "x", "ts": oops, "dur": 1}])", "at byte 38");
  refuses(R"([{"cat": "cpu_op", "name": "x", "ts": 1, "dur": 2e15}])", "less than 13 days");
  refuses(R"([{"cat": "cpu_op", "name": "x", "ts": 9e15, "dur": 2}])", "up to the year 2116");
  refuses(R"({"a": 1})", "without traceEvents");
  refuses("", "without traceEvents");
  CHECK_THROWS_AS(read_trace(folder.path()), UserError);
  CHECK_THROWS_AS(read_trace(folder.path() / "none.json"), UserError);

  auto file = folder.write_gzip("t.json.gz", small_trace());
  std::fstream damaged(file, std::ios::in | std::ios::out | std::ios::binary);
  damaged.seekp(30);
  damaged << "damage";
  damaged.close();
  CHECK_THROWS_WITH(read_trace(file), Catch::Contains("damaged behind byte"));
}

TEST_CASE("a damaged trace is read or refused", "[trace]") {
  const TraceFolder folder;
  const auto whole = small_trace();
  constexpr std::string_view pieces[] = {"\"",  "[",    "}", "-",   "1e400", "99999999999999999999",
                                         "\\u", "null", ",", "\xff"};
  uint32_t draw = 1;
  const auto next = [&](size_t below) { return (draw = draw * 1664525 + 1013904223) % below; };
  int64_t read = 0, refused = 0;
  for (int i = 0; i < 3000; ++i) {
    auto text = whole;
    for (size_t damages = 1 + next(4); damages > 0; --damages)
      text.replace(next(text.size()), next(3), pieces[next(std::size(pieces))]);
    try {
      const auto analysis = analyze_traces({folder.write("rank0.json", text)}, {}, {});
      page_of(report_of(analysis));
      ++read;
    } catch (const UserError&) {
      ++refused;
    }
  }
  CHECK(read > 100);
  CHECK(refused > 1000);
}

TEST_CASE("pairs of B and E are said to be left out", "[trace]") {
  const TraceFolder folder;
  const auto trace = read_trace(folder.write(
      "t.json", R"([{"ph": "B", "name": "x", "ts": 1}, {"ph": "E", "name": "x", "ts": 2}])"));
  REQUIRE(trace.warnings.size() == 1);
  CHECK_THAT(trace.warnings[0], Catch::Contains("2 events are pairs of B and E"));
}

TEST_CASE("a folder's traces are the newest of each rank", "[trace]") {
  const TraceFolder folder;
  const auto of = [](int rank) { return TraceText().step(1, "0", "1").of_rank(rank); };
  folder.write("rank0.9.pt.trace.json", of(0));
  folder.write("rank0.120.pt.trace.json", of(0));
  folder.write("rank1.120.pt.trace.json", of(1));
  folder.write("rank7.json", TraceText().step(1, "0", "1").array());
  folder.write("unnamed.json", TraceText().step(1, "0", "1").array());
  folder.write("notes.txt", "no trace");
  const auto traces = find_traces({folder.path()});
  REQUIRE(traces.files.size() == 4);
  CHECK(traces.files[0].path.filename() == "rank0.120.pt.trace.json");
  CHECK(traces.files[1].rank == 1);
  CHECK(traces.files[2].rank == 2);
  CHECK(traces.files[2].path.filename() == "unnamed.json");
  CHECK(traces.files[3].rank == 7);
  REQUIRE(traces.left_out.size() == 1);
  CHECK(traces.left_out[0].filename() == "rank0.9.pt.trace.json");
  CHECK_THROWS_WITH(find_traces({folder.path() / "rank0.9.pt.trace.json",
                                 folder.path() / "rank0.120.pt.trace.json"}),
                    Catch::Contains("both of rank 0"));
}

std::string one_step(int number, int rank) {
  return TraceText().step(number, "0", "100").of_rank(rank);
}

TEST_CASE("ranks are compared at the last step that all of them have", "[trace]") {
  const TraceFolder folder;
  folder.write("rank0.10.pt.trace.json", one_step(9, 0));
  folder.write("rank0.500.pt.trace.json", one_step(499, 0));
  folder.write("rank1.10.pt.trace.json", one_step(9, 1));
  auto traces = find_traces({folder.path()});
  REQUIRE(traces.files.size() == 2);
  CHECK(traces.files[0].path.filename() == "rank0.10.pt.trace.json");
  REQUIRE(traces.left_out.size() == 1);
  CHECK(analyze_traces({folder.path()}, {}, {}).warnings.empty());

  std::filesystem::remove(folder.path() / "rank0.10.pt.trace.json");
  folder.write("rank1.7.pt.trace.json", one_step(6, 1));
  traces = find_traces({folder.path()});
  CHECK(traces.files[0].path.filename() == "rank0.500.pt.trace.json");
  CHECK(traces.files[1].path.filename() == "rank1.10.pt.trace.json");
  const auto report = report_of(analyze_traces({folder.path()}, {}, {}));
  REQUIRE(report.warnings.size() == 1);
  CHECK_THAT(report.warnings[0], Catch::Contains("no step in common") &&
                                     Catch::Contains("rank 0: from 499, 1: from 9)"));
}

TEST_CASE("windows of a process that tells no rank are of one rank", "[trace]") {
  const TraceFolder folder;
  const auto text = TraceText().step(1, "0", "100").array();
  for (const auto* name : {"host_77.100", "host_77.200", "host_78.150"})
    folder.write(std::string(name) + ".pt.trace.json", text);
  const auto traces = find_traces({folder.path()});
  REQUIRE(traces.files.size() == 2);
  CHECK(traces.files[0].path.filename() == "host_77.200.pt.trace.json");
  CHECK(traces.files[1].path.filename() == "host_78.150.pt.trace.json");
}

TEST_CASE("of a folder, hidden files and what is no trace are left out", "[trace]") {
  const TraceFolder folder;
  folder.write("rank0.5.pt.trace.json", one_step(4, 0));
  folder.write(".rank0.9.pt.trace.json", one_step(8, 0));
  CHECK(find_traces({folder.path()}).left_out.empty());
  folder.write("summary.json", R"({"a": 1})");
  folder.write("list.json", "[1, 2]");
  folder.write("words.json", "not JSON");
  folder.write("empty.json", "");
  const auto traces = find_traces({folder.path()});
  REQUIRE(traces.files.size() == 1);
  CHECK(traces.files[0].path.filename() == "rank0.5.pt.trace.json");
  REQUIRE(traces.warnings.size() == 4);
  CHECK_THAT(traces.warnings[1],
             Catch::Contains("list.json: at byte 1") && Catch::Contains("left out"));
  CHECK(analyze_traces({folder.path()}, {}, {}).warnings.size() == 4);

  std::filesystem::remove(folder.path() / "rank0.5.pt.trace.json");
  CHECK_THROWS_WITH(find_traces({folder.path()}),
                    Catch::Contains("has no traces") && Catch::Contains("summary.json"));
}

TEST_CASE("a rank that is told behind the events counts", "[trace]") {
  const TraceFolder folder;
  const auto of = [](int rank) {
    return R"({"traceEvents": )" + TraceText().step(1, "0", "1").array() +
           R"(, "distributedInfo": {"rank": )" + std::to_string(rank) + "}}";
  };
  folder.write("a.json", of(5));
  folder.write("b.json", of(3));
  const auto analysis = analyze_traces({folder.path()}, {}, {});
  REQUIRE(analysis.ranks.size() == 2);
  CHECK(analysis.ranks[0].rank == 3);
  CHECK(analysis.ranks[1].rank == 5);
  folder.write("c.json", of(5));
  CHECK_THROWS_WITH(analyze_traces({folder.path()}, {}, {}), Catch::Contains("both of rank 5"));
}

TEST_CASE("paths that cannot be looked at are the user's to mend", "[trace]") {
  const TraceFolder folder;
  std::filesystem::create_symlink("loop", folder.path() / "loop");
  CHECK_THROWS_AS(find_traces({folder.path() / "loop"}), UserError);
  CHECK_THROWS_AS(find_traces({std::string(300, 'n')}), UserError);
  const auto file = folder.write("rank0.json", TraceText().work("a", "1", "2", "3").of_rank(0));
  CHECK_THROWS_AS(analyze_traces({file}, {}, {}, file / "out"), UserError);
}

TEST_CASE("a run's folder means its traces; without any there is an error", "[trace]") {
  const TraceFolder folder;
  CHECK_THROWS_WITH(find_traces({folder.path()}), Catch::Contains("has no traces"));
  std::filesystem::create_directories(folder.path() / "traces");
  folder.write("recipe.json", "{}");
  folder.write("traces/rank0.5.pt.trace.json", small_trace());
  REQUIRE(find_traces({folder.path()}).files.size() == 1);
  CHECK_THROWS_WITH(find_traces({folder.path() / "none"}), Catch::Contains("does not exist"));
  std::filesystem::create_directories(folder.path() / "run");
  folder.write("run/about.json", "{}");
  folder.write("run/hparams.yaml", "");
  CHECK_THROWS_WITH(find_traces({folder.path() / "run"}),
                    Catch::Contains("has no traces/; make one with `composer train --profile`"));
}

TEST_CASE("a trace without events is no basis", "[trace]") {
  const TraceFolder folder;
  for (const char* text : {"[]", R"({"traceEvents": []})"})
    CHECK_THROWS_WITH(analyze_traces({folder.write("rank0.json", text)}, {}, {}),
                      Catch::Contains("rank0.json: has no events"));
  const auto one = folder.write("rank1.json", TraceText().work("a", "1", "2", "3").of_rank(1));
  const auto analysis = analyze_traces({folder.path() / "rank0.json", one}, {}, {});
  REQUIRE_FALSE(analysis.warnings.empty());
  CHECK_THAT(analysis.warnings[0], Catch::Contains("rank0.json: has no events"));
}

}  // namespace
}  // namespace composer::trace_reader_test

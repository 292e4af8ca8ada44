#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "analysis/trace/trace_analysis.h"
#include "analysis/trace/trace_reader.h"
#include "tests/analysis/traces.h"

namespace composer::trace_device_test {
namespace {

RankAnalysis analyzed(const TraceText& text, const TraceRules& rules = {}) {
  const TraceFolder folder;
  return analyze(read_trace(folder.write("t.json", text.of_rank(0)), rules.times()), rules, {});
}

/// Work at [10, 20), [15, 30), sent [25, 45), copied [60, 70): three gaps on stream 7.
TraceText known_work() {
  return TraceText()
      .work("gemm", "1", "10", "10")
      .work("relu", "2", "15", "15", 8)
      .work("ncclDevKernel_AllReduce_Sum", "3", "25", "20", 9)
      .work("Memcpy HtoD (Pinned -> Device)", "50", "60", "10", 7, bandwidth("12.5"));
}

TEST_CASE("a device's span is idle, computes, or does other things", "[trace]") {
  const auto device = *analyzed(known_work()).device;
  CHECK(device.temporal.span_ns == 60000);
  CHECK(device.temporal.idle_ns == 15000);
  CHECK(device.temporal.compute_ns == 20000);
  CHECK(device.temporal.non_compute_ns == 25000);
}

TEST_CASE("kernels by type, and what runs beside what", "[trace]") {
  const auto device = *analyzed(known_work()).device;
  CHECK(device.types.without_memory == std::vector<int64_t>{0, 15000, 15000, 5000});
  CHECK(device.types.with_memory == std::vector<int64_t>{0, 15000, 15000, 5000, 10000, 0, 0, 0});
  CHECK(*device.overlap == Approx(0.25));
  CHECK_FALSE(analyzed(TraceText().work("gemm", "1", "2", "3")).device->overlap);
}

TEST_CASE("types of kernels are told by their names", "[trace]") {
  CHECK(kernel_type("ncclDevKernel_AllReduce", false) == KernelType::communication);
  CHECK(kernel_type("Memcpy DtoH (Device -> Pageable)", false) == KernelType::memory);
  CHECK(kernel_type("Memset (Device)", false) == KernelType::memory);
  CHECK(kernel_type("volta_sgemm_128x64_nn", false) == KernelType::computation);
  CHECK(kernel_type("Stream Wait Event", false) == KernelType::other);
  CHECK(kernel_type("Stream Wait Event", true) == KernelType::computation);
  CHECK(kernel_type("Event Sync", true) == KernelType::other);
  CHECK(kernel_type("cudaLaunchKernelExC", false) == KernelType::other);
  CHECK(kernel_type("void my_cuda_LaunchKernel()", false) == KernelType::computation);
  CHECK(short_name("void at::native::(anonymous namespace)::f<int, g<2>>(int*)") ==
        "at::native::::f");
  CHECK(short_name("Memcpy HtoD (Pinned -> Device)") == "Memcpy HtoD (Pinned -> Device)");
}

TEST_CASE("a stream's gaps are the host's, the usual, or others", "[trace]") {
  const auto text = TraceText()
                        .work("a", "0", "10", "10")
                        .work("b", "25", "30", "10")    // launched after a ended: 10 us
                        .work("c", "26", "60", "10")    // 20 us, launched before
                        .work("d", "27", "170", "10");  // 100 us, launched before
  const auto idle = analyzed(text).device->idle;
  REQUIRE(idle.size() == 1);
  CHECK(idle[0].stream == 7);
  CHECK(idle[0].host_wait_ns == 10000);
  CHECK(idle[0].kernel_wait_ns == 20000);
  CHECK(idle[0].other_ns == 100000);

  TraceRules rules;
  rules.consecutive_kernel_delay_ns = 20000;
  CHECK(analyzed(text, rules).device->idle[0].kernel_wait_ns == 0);
}

TEST_CASE("nanoseconds are kept through the analyses", "[trace]") {
  const auto device = *analyzed(TraceText()
                                    .work("a", "1", "1712195495984501.001", "0.998")
                                    .work("b", "2", "1712195495984502.000", "0.001"))
                           .device;
  CHECK(device.temporal.span_ns == 1000);
  CHECK(device.temporal.idle_ns == 1);
}

TEST_CASE("the last step is dropped, and what it launched", "[trace]") {
  const auto text = TraceText()
                        .step(1, "0", "100")
                        .step(2, "100", "100")
                        .work("first", "10", "120", "5")  // of step 1, though it runs in step 2
                        .work("second", "110", "130", "5");
  const auto rank = analyzed(text);
  CHECK(rank.last_step_dropped);
  CHECK(rank.device->temporal.span_ns == 5000);
  REQUIRE(rank.device->kernels.size() == 1);
  CHECK(rank.device->kernels[0].name == "first");

  const auto one_step = analyzed(TraceText().step(1, "0", "100").work("k", "10", "20", "5"));
  CHECK_FALSE(one_step.last_step_dropped);
  REQUIRE(one_step.warnings.size() == 1);
  CHECK_THAT(one_step.warnings[0], Catch::Contains("fewer than two steps"));
}

TEST_CASE("a step's mark on a device does not say when the host began it", "[trace]") {
  auto text = TraceText().step(1, "0", "100").step(2, "100", "100");
  text.add(R"("ph": "X", "cat": "gpu_user_annotation", "name": "ProfilerStep#2", "pid": 0, )"
           R"("tid": 7, "ts": 180, "dur": 100)");
  text.work("first", "10", "20", "5").work("second", "150", "190", "5");
  CHECK(analyzed(text).device->kernels.size() == 1);
  TraceRules rules;
  rules.as_hta = true;
  CHECK(analyzed(text, rules).device->kernels.size() == 2);
}

TEST_CASE("kernels by name: the numbers of calls, and the others", "[trace]") {
  TraceText text;
  // Names k0..k11 with sums 1200, 1100, ..., 100 us; k0 in two calls.
  int at = 0;
  for (int i = 0; i < 12; ++i) {
    const int sum = 1200 - 100 * i;
    const auto name = "k" + std::to_string(i);
    const auto add = [&](int duration) {
      text.work(name, std::to_string(at), std::to_string(at + 1), std::to_string(duration));
      at += 2000;
    };
    if (i == 0) add(300);
    add(i == 0 ? 900 : sum);
  }
  const auto kernels = analyzed(text).device->kernels;
  // Running sums 1200, 2300, 3300, 4200, 5000, 5700, 6300, 6800, 7200, 7500, 7700, 7800; their
  // 0.8 quantile is 7440, so that nine names are listed.
  REQUIRE(kernels.size() == 10);
  CHECK(kernels[0].name == "k0");
  CHECK(kernels[0].calls == 2);
  CHECK(kernels[0].sum_ns == 1200000);
  CHECK(kernels[0].mean_ns == Approx(600000));
  CHECK(kernels[0].max_ns == 900000);
  CHECK(kernels[0].deviation_ns == Approx(424264.07));
  CHECK(kernels[8].name == "k8");
  CHECK(kernels[9].name == "others");
  CHECK(kernels[9].sum_ns == 600000);
  CHECK(kernels[9].calls == 3);

  TraceRules rules;
  rules.as_hta = true;
  const auto grouped = analyzed(text, rules).device->kernels;
  CHECK(grouped[0].mean_ns == 1200000);
  CHECK(grouped[0].deviation_ns == 0);
  rules = {};
  rules.most_kernels = 12;
  CHECK(analyzed(text, rules).device->kernels.size() == 12);
}

TEST_CASE("a stream's queue is longer from a launch to its start", "[trace]") {
  const auto text = TraceText()
                        .work("a", "0", "10", "100")
                        .work("b", "1", "110", "100")
                        .work("c", "2", "210", "100");
  TraceRules rules;
  rules.queue_capacity = 2;
  const auto queues = analyzed(text, rules).device->queues;
  REQUIRE(queues.size() == 1);
  CHECK(queues[0].length.count == 6);
  CHECK(queues[0].length.max == 3);
  CHECK(queues[0].length.mean == Approx(1.5));
  CHECK(queues[0].blocked_ns == 109000);  // from 1 to 110
  CHECK(queues[0].blocked_share == Approx(109.0 / 210));
}

TEST_CASE("copies' bandwidth adds up where they overlap, and ends at none", "[trace]") {
  const auto copy = [](TraceText& text, const char* start, const char* duration,
                       const char* speed) {
    text.work("Memcpy HtoD", "0", start, duration, 7, bandwidth(speed));
  };
  TraceText text;
  copy(text, "10", "10", "0.1");
  copy(text, "15", "10", "0.2");
  copy(text, "25", "0", "0.7");  // begins where the one before ends, and lasts 1 us
  const auto copies = analyzed(text).device->copies;
  REQUIRE(copies.size() == 1);
  CHECK(copies[0].kind == "Memcpy HtoD");
  CHECK(copies[0].gb_per_second.count == 4);  // 0.1, 0.3, 0.2, 0.7; what is left of none is not
  CHECK(copies[0].gb_per_second.max == Approx(0.7));
  CHECK(copies[0].gb_per_second.mean == Approx(0.325));
}

TEST_CASE("a trace is written again with counters", "[trace]") {
  const TraceFolder folder;
  const auto file = folder.write_gzip("rank0.3.pt.trace.json.gz", known_work().of_rank(0));
  const auto analysis = analyze_traces({file}, {}, {}, folder / "out");
  REQUIRE(analysis.counter_traces ==
          std::vector{(folder / "out/rank0.3_with_counters.json").string()});
  std::ifstream in(analysis.counter_traces[0]);
  const auto json = nlohmann::json::parse(in);
  CHECK(json.at("traceName") == "a trace");
  std::vector<std::string> counters;
  for (const auto& event : json.at("traceEvents"))
    if (event.at("ph") == "C")
      counters.push_back(event.at("name").get<std::string>() + " " + event.at("ts").dump() + " " +
                         event.at("args").dump());
  CHECK(counters.size() == 10);
  CHECK(counters[0] == R"(Queue Length 1.0 {"Queue Length":1})");
  CHECK(counters[8] == R"(Memcpy HtoD 60.0 {"Memcpy BW":12.5})");
  CHECK(counters[9] == R"(Memcpy HtoD 70.0 {"Memcpy BW":0})");
  CHECK(json.at("traceEvents").size() == 18);

  const auto cut = folder.write("cut.json", known_work().of_rank(0).substr(0, 900));
  CHECK_THROWS_WITH(analyze_traces({cut}, {}, {}, folder / "out"),
                    Catch::Contains("ends in the middle"));
}

TEST_CASE("counters are JSON whatever the trace holds", "[trace]") {
  const TraceFolder folder;
  const auto text = TraceText()
                        .work("a", "-5.25", "-3.001", "2")
                        .work(R"(Memcpy \"\\x)", "0", "1", "2", 7, bandwidth("1.5"))
                        .work("Memcpy HtoD", "5", "6", "2", 7, bandwidth("Infinity"))
                        .work("Memcpy HtoD", "6", "7", "2", 7, bandwidth("NaN"))
                        .work("Memcpy HtoD", "7", "8", "2", 7, bandwidth("1e308"))
                        .work("Memcpy HtoD", "8", "9", "2", 7, bandwidth("1e308"));
  const auto out = folder / "out";
  analyze_traces({folder.write("t.json", text.array())}, {}, {}, out);
  std::ifstream in(out / "t_with_counters.json");
  std::string file{std::istreambuf_iterator<char>(in), {}};
  for (const auto* odd : {"Infinity", "NaN"})  // the trace's own, as Kineto writes them
    file.replace(file.find(odd), std::string_view(odd).size(), "0");
  const auto json = nlohmann::json::parse(file);
  std::vector<double> times;
  std::set<std::string> names;
  for (const auto& event : json) {
    if (event.at("ph") != "C") continue;
    names.insert(event.at("name"));
    if (event.at("name") == "Queue Length") times.push_back(event.at("ts"));
  }
  REQUIRE(times.size() == 12);
  CHECK(times[0] == -5.25);
  CHECK(times[1] == -3.001);
  CHECK(names == std::set<std::string>{"Queue Length", "Memcpy HtoD", R"(Memcpy "\x)"});
}

TEST_CASE("traces of one name are not written over each other with counters", "[trace]") {
  const TraceFolder folder;
  std::vector<std::filesystem::path> files;
  for (const int rank : {0, 1}) {
    const auto inner = "r" + std::to_string(rank);
    std::filesystem::create_directories(folder / inner);
    files.push_back(folder.write(inner + "/trace.json", known_work().of_rank(rank)));
  }
  const auto analysis = analyze_traces(files, {}, {}, folder / "out");
  CHECK(analysis.counter_traces ==
        std::vector{(folder / "out/trace_with_counters.json").string(),
                    (folder / "out/trace_rank1_with_counters.json").string()});
  CHECK(std::filesystem::exists(analysis.counter_traces.at(1)));
}

TEST_CASE("launches: calls, work and the delay between", "[trace]") {
  auto text = TraceText().work("a", "0", "10", "5").work("b", "20", "20.5", "0.5");
  text.host("cuda_runtime", "cudaLaunchKernel", "30", "60", R"("correlation": 77)");
  text.add(R"("ph": "X", "cat": "kernel", "name": "c", "pid": 0, "tid": 7, "ts": 200, "dur": 9, )"
           R"("args": {"stream": 7, "correlation": 77})");
  const auto launches = analyzed(text).device->launches;
  CHECK(launches.call.count == 3);
  CHECK(launches.call.max == 60000);
  CHECK(launches.delay.min == 0);  // b began before its call returned
  CHECK(launches.delay.max == 110000);
  CHECK(launches.short_work == 2);
  CHECK(launches.slow_calls == 1);
  CHECK(launches.late_starts == 1);
}

TEST_CASE("ranks are reduced one after another, and their kernels' time summed", "[trace]") {
  const TraceFolder folder;
  folder.write("rank0.json", TraceText().work("gemm", "0", "1", "10").of_rank(0));
  folder.write_gzip("rank1.json.gz", TraceText().work("gemm", "0", "1", "30").of_rank(1));
  const auto analysis = analyze_traces({folder.path()}, {}, {});
  REQUIRE(analysis.ranks.size() == 2);
  CHECK(analysis.ranks[1].device->temporal.compute_ns == 30000);
  CHECK(analysis.types.with_memory[1] == 40000);
}

}  // namespace
}  // namespace composer::trace_device_test

#include "composer/run/profiler.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <thread>

#include "nn/profiling/kineto.h"
#include "nn/profiling/memory_timeline.h"
#include "nn/profiling/thread_ranges.h"
#include "nn/profiling/timer.h"
#include "read_trace.h"
#include "terminal.h"
#include "tests/base/largest_file.h"
#include "tiny_run.h"

namespace composer::profiler_test {

using Catch::Contains;
namespace fs = std::filesystem;

namespace {

/// One letter a step: what happens.
std::string actions(const TraceSchedule& schedule, int64_t steps) {
  std::string letters;
  for (int64_t step = 0; step < steps; ++step)
    letters += ".wrS"[static_cast<size_t>(scheduled_action(schedule, step))];
  return letters;
}

std::set<std::string> files_in(const fs::path& folder) {
  std::set<std::string> names;
  if (fs::exists(folder))
    for (const auto& entry : fs::directory_iterator(folder))
      names.insert(entry.path().filename().string());
  return names;
}

/// What those who asked for a trace are told.
struct Told {
  bool done = true;
  std::string text;
};

/// Steps 10 to 19 of nothing much; in step 12 `steps` are asked for.
Told ask_for_trace(const fs::path& folder, int64_t steps, const TraceSchedule& schedule = {}) {
  Trainer trainer(tiny_parts());
  trainer.prepare();
  Told told;
  Profiler profiler({.what = {.schedule = schedule},
                     .folder = folder,
                     .asked_begins = [] {},
                     .asked_ends =
                         [&](bool done, const std::string& text) {
                           told = {done, text};
                         }},
                    {});
  for (int64_t step = 10; step < 20; ++step) {
    if (step == 12) profiler.trace_next(steps);
    profiler.step(step, trainer.state());
    at::zeros({4}).add_(1);
  }
  profiler.finish();
  return told;
}

/// Ends training.
struct FailsAt : Callback {
  explicit FailsAt(int64_t batch) : batch(batch) {}
  void batch_end(const State& state, Logger&, RunControl&) override {
    if (state.time.batch == batch) throw RunError("nothing goes any more");
  }
  int64_t batch;
};

/// Trains 8 steps; returns the weights.
at::Tensor train(const TemporaryFolder& folder, const ProfilerOptions& profiler) {
  auto parts = tiny_parts();
  parts.options.run_dir = folder.path();
  parts.options.run_name = "run";
  parts.options.profiler = profiler;
  Trainer trainer(std::move(parts));
  trainer.fit();
  return weights_of(trainer);
}

}  // namespace

TEST_CASE("a schedule counts as PyTorch's does", "[profiler]") {
  CHECK(actions({.active = 0}, 12) == "............");
  CHECK(actions({.active = 5}, 14) == ".....wrrrrS...");
  CHECK(actions({.skip_first = 0, .wait = 2, .warmup = 1, .active = 2, .repeat = 0}, 12) ==
        "..wrS..wrS..");
  CHECK(actions({.skip_first = 1, .wait = 0, .warmup = 0, .active = 1, .repeat = 2}, 5) == ".SS..");
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  CHECK(actions({.skip_first = 0, .wait = most, .warmup = most, .active = 2}, 4) == "....");
  CHECK(actions({.skip_first = 0, .wait = 1, .warmup = most, .active = most}, 4) == ".www");
  CHECK(actions({.skip_first = 0, .wait = 1, .warmup = 1, .active = most}, 4) == ".wrr");
}

TEST_CASE("memory is told apart by what it is for", "[profiler]") {
  constexpr int64_t numbers = 1 << 20, bytes = numbers * 4;
  const auto weight = at::zeros({numbers});
  MemoryTimeline memory(at::kCPU);
  memory.mark(MemoryUse::weights, {weight});
  auto gradient = at::zeros({2 * numbers});
  auto other = at::zeros({3 * numbers});
  memory.mark(MemoryUse::gradients, {gradient, at::Tensor()});
  other.reset();
  gradient.reset();
  const auto points = memory.points();
  const auto value = [](const MemoryPoint& point, MemoryUse use) {
    return static_cast<double>(point.bytes[static_cast<size_t>(use)]);
  };
  const auto most = [&](MemoryUse use) {
    double all = 0;
    for (const auto& point : points) all = std::max(all, value(point, use));
    return all;
  };
  REQUIRE(!points.empty());
  CHECK(value(points.front(), MemoryUse::weights) == Approx(bytes));
  CHECK(most(MemoryUse::gradients) == Approx(2 * bytes).epsilon(0.01));
  CHECK(most(MemoryUse::activations) == Approx(3 * bytes).epsilon(0.01));
  CHECK(most(MemoryUse::input) == 0);
  CHECK(value(points.back(), MemoryUse::weights) == Approx(bytes));
  CHECK(value(points.back(), MemoryUse::gradients) == Approx(0).margin(1000));
  CHECK(value(points.back(), MemoryUse::activations) == Approx(0).margin(1000));
  CHECK(std::ranges::is_sorted(points, {}, &MemoryPoint::nanoseconds));
}

TEST_CASE("a run traces the steps of its schedule and trains to the same bytes", "[profiler]") {
  const TemporaryFolder plain, traced;
  const auto before = train(plain, {});
  CHECK(files_in(plain / "run/traces").empty());
  ProfilerOptions profiler;
  profiler.schedule = {.skip_first = 1, .wait = 0, .warmup = 1, .active = 2, .repeat = 2};
  profiler.record_shapes = profiler.profile_memory = true;
  const auto after = train(traced, profiler);
  CHECK(at::equal(before, after));
  CHECK_FALSE(at::hasCallbacks());
  CHECK(files_in(traced / "run/traces") ==
        std::set<std::string>{"rank0.2.pt.trace.json.gz", "rank0.5.pt.trace.json.gz"});

  const ReadTrace trace(traced / "run/traces/rank0.2.pt.trace.json.gz");
  CHECK(trace.steps() == std::vector<int64_t>{2, 3});
  CHECK(trace.overlap() == "");
  for (const char* name : {"dataloader", "normalize", "forward", "backward", "optimizer"}) {
    INFO(name);
    CHECK(trace.count(name) >= 2);
  }
  CHECK(trace.count("evaluation") == 1);  // an epoch has 4 steps: the last has what follows it
  // Whether the writing has begun when the trace ends is chance.
  for (const auto& row : trace.rows_with("write checkpoint"))
    CHECK_THAT(row, Contains("checkpoint)"));
  CHECK(trace.json()["distributedInfo"] ==
        nlohmann::json{{"backend", "gloo"}, {"rank", 0}, {"world_size", 1}});
  bool shapes = false, counters = false;
  for (const auto& one : trace.json()["traceEvents"]) {
    counters |= one["ph"] == "C" && one["args"]["weights"] > 0 && one["args"]["gradients"] > 0;
    shapes |= one["name"] == "aten::convolution" && one["args"].contains("Input Dims");
  }
  CHECK(shapes);
  CHECK(counters);
  CHECK(ReadTrace(traced / "run/traces/rank0.5.pt.trace.json.gz").steps() ==
        std::vector<int64_t>{5, 6});
}

TEST_CASE("a run that is shorter than its schedule writes what it has", "[profiler]") {
  const TemporaryFolder folder;
  ProfilerOptions profiler;
  profiler.schedule = {.skip_first = 5, .wait = 0, .warmup = 1, .active = 50, .repeat = 1};
  train(folder, profiler);
  REQUIRE(files_in(folder / "run/traces") == std::set<std::string>{"rank0.6.pt.trace.json.gz"});
  CHECK(ReadTrace(folder / "run/traces/rank0.6.pt.trace.json.gz").steps() ==
        std::vector<int64_t>{6, 7});

  const TemporaryFolder too_short;
  profiler.schedule.skip_first = 100;
  train(too_short, profiler);
  CHECK(files_in(too_short / "run/traces").empty());
}

TEST_CASE("a trace that is asked for is of the next steps", "[profiler]") {
  const TemporaryFolder folder;
  Trainer trainer(tiny_parts());
  trainer.prepare();
  int began = 0;
  std::string told;
  Profiler profiler({.what = {},
                     .folder = folder / "traces",
                     .asked_begins = [&] { ++began; },
                     .asked_ends =
                         [&](bool done, const std::string& text) {
                           CHECK(done);
                           told = text;
                         }},
                    {});
  for (int64_t step = 10; step < 20; ++step) {
    if (step == 12) profiler.trace_next(2);
    if (step == 12) profiler.trace_next(1);
    profiler.step(step, trainer.state());
    at::zeros({4}).add_(1);
  }
  profiler.finish();
  CHECK(began == 1);
  CHECK(told == (folder / "traces/rank0.13.pt.trace.json.gz").string());
  CHECK(ReadTrace(fs::path(told)).steps() == std::vector<int64_t>{13, 14});
}

TEST_CASE("a run that fails writes what it has traced", "[profiler]") {
  const TemporaryFolder folder;
  auto parts = tiny_parts();
  parts.options.run_dir = folder.path();
  parts.options.run_name = "run";
  parts.options.profiler.schedule = {.skip_first = 2, .wait = 0, .warmup = 1, .active = 50};
  Trainer trainer(std::move(parts));
  trainer.add<FailsAt>("fails", 6);
  CHECK_THROWS_WITH(trainer.fit(), Contains("nothing goes any more"));
  REQUIRE(files_in(folder / "run/traces") == std::set<std::string>{"rank0.3.pt.trace.json.gz"});
  CHECK(ReadTrace(folder / "run/traces/rank0.3.pt.trace.json.gz").steps() ==
        std::vector<int64_t>{3, 4, 5});
}

TEST_CASE("who asked for a trace of a run that fails is told where its beginning is",
          "[profiler]") {
  const TemporaryFolder folder;
  Trainer trainer(tiny_parts());
  trainer.prepare();
  Told told;
  {
    Profiler profiler({.what = {},
                       .folder = folder / "traces",
                       .asked_ends =
                           [&](bool done, const std::string& text) {
                             told = {done, text};
                           }},
                      {});
    profiler.trace_next(5);
    for (int64_t step = 0; step < 3; ++step) profiler.step(step, trainer.state());
  }
  const auto path = folder / "traces/rank0.1.pt.trace.json.gz";
  CHECK_FALSE(told.done);
  CHECK(told.text == "training failed; what it did before is in " + path.string());
  CHECK(ReadTrace(path).steps() == std::vector<int64_t>{1, 2});
}

TEST_CASE("traces are whole in a folder of any name", "[profiler]") {
  const TemporaryFolder folder;
  for (const std::string name : {"q\"t", "b\\s", "file:a", "caf\xe9", "two\nlines"}) {
    INFO(name);
    const auto traces = folder / name;
    const auto told = ask_for_trace(traces, 2);
    CHECK(told.done);
    REQUIRE(files_in(traces) == std::set<std::string>{"rank0.13.pt.trace.json.gz"});
    CHECK(ReadTrace(traces / "rank0.13.pt.trace.json.gz").steps() == std::vector<int64_t>{13, 14});
  }
}

TEST_CASE("nothing is left of a trace that cannot be written", "[profiler]") {
  const TemporaryFolder folder;
  Told told;
  const auto log = standard_error_of([&] {
    const LargestFile small(2000);
    told = ask_for_trace(folder.path(), 3);
  });
  CHECK_FALSE(told.done);
  CHECK_THAT(told.text, Contains("rank 0 has no trace: ") && Contains("(disk full?)"));
  CHECK_THAT(log, Contains("warning: there is no trace: "));
  CHECK(files_in(folder.path()).empty());
}

TEST_CASE("what a killed process left of a trace is removed", "[profiler]") {
  const TemporaryFolder folder;
  for (const char* name : {".rank0.6.pt.trace.json", ".rank11.6.pt.trace.json.tmp",
                           "rank0.1.pt.trace.json.gz", ".rank"})
    std::ofstream(folder / name) << "x";
  const Profiler profiler({.what = {}, .folder = folder.path()}, {});
  CHECK(files_in(folder.path()) == std::set<std::string>{"rank0.1.pt.trace.json.gz", ".rank"});
}

TEST_CASE("a schedule whose steps another trace has is not called too late", "[profiler]") {
  const TemporaryFolder folder;
  const auto log = [&](const TraceSchedule& schedule) {
    return standard_error_of([&] { CHECK(ask_for_trace(folder.path(), 5, schedule).done); });
  };
  CHECK_THAT(log({.skip_first = 3, .wait = 0, .warmup = 1, .active = 2}), !Contains("warning"));
  CHECK_THAT(log({.skip_first = 9, .wait = 0, .warmup = 1, .active = 2}),
             Contains("training ended after 10 steps, before the first that was to be traced"));
}

TEST_CASE("the environment is as the tracer needs it before there are loggers", "[profiler]") {
  struct Looks : LogSink {
    bool in_loop() const override { return true; }
    void open(const RunInfo&) override { set = std::getenv("KINETO_LOG_LEVEL") != nullptr; }
    void write(const Record&) override {}
    bool set = false;
  };
  if (!kineto_available()) {
    WARN("skipped: this LibTorch has no Kineto");
    return;
  }
  ::unsetenv("KINETO_LOG_LEVEL");
  const auto looks = std::make_shared<Looks>();
  auto parts = tiny_parts();
  parts.loggers.push_back(looks);
  Trainer(std::move(parts)).fit();
  CHECK(looks->set);
}

TEST_CASE("a lasting range is in no trace where daemons make some", "[profiler]") {
  const TemporaryFolder folder;
  leave_lasting_ranges_out();
  const Timer timer;
  KinetoTrace trace({});
  trace.start("{}");
  std::thread([] {
    const ThreadRange lasting("lasting", /*lasting=*/true);
    const ThreadRange brief("brief");
  }).join();
  trace.save(folder / "trace.json");
  std::ifstream stream(folder / "trace.json");
  const ReadTrace read(nlohmann::json::parse(stream));
  CHECK(read.count("brief") == 1);
  CHECK(read.count("lasting") == 0);
  const auto elsewhere = timer.totals().elsewhere;
  CHECK(elsewhere.at("lasting").calls == 1);
  CHECK(elsewhere.at("lasting").self_seconds < elsewhere.at("lasting").seconds);
}

TEST_CASE("a thread's range that is open when a trace ends is not in the next", "[profiler]") {
  const TemporaryFolder folder;
  std::atomic<int> turn = 0;
  const auto until = [&](int number) {
    while (turn < number) std::this_thread::yield();
  };
  const Timer timer;
  std::thread thread([&] {
    until(1);
    {
      const ThreadRange range("long");
      turn = 2;
      until(3);
    }
    const ThreadRange range("short");
    turn = 4;
  });
  for (const char* name : {"first.json", "second.json"}) {
    KinetoTrace trace({});
    trace.start("{}");
    const int mine = ++turn;
    until(mine + 1);
    trace.save(folder / name);
  }
  thread.join();
  const auto count = [&](const std::string& file, const std::string& name) {
    std::ifstream stream(folder / file);
    return ReadTrace(nlohmann::json::parse(stream)).count(name);
  };
  CHECK(count("first.json", "long") == 1);
  CHECK(count("second.json", "long") == 0);
  CHECK(count("second.json", "short") == 1);
  CHECK(timer.totals().elsewhere.at("long").calls == 1);
}

TEST_CASE("traces need a folder", "[profiler]") {
  auto parts = tiny_parts();
  parts.options.profiler.schedule.active = 1;
  CHECK_THROWS_WITH(Trainer(std::move(parts)).fit(), Contains("profiler: needs a run_dir"));
}

}  // namespace composer::profiler_test

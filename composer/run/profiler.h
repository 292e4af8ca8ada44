// Traces of a run's steps: those of a schedule, and those requested while the run goes on.
#pragma once

#include <ATen/record_function.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "composer/recipe/options.h"
#include "nn/distributed/ranks.h"

namespace composer {

class KinetoTrace;
class MemoryTimeline;
struct State;

/// The profiler's action in a step.
enum class TraceAction { none, warmup, record, record_and_save };

/// The action in step `step`, which counts from 0.
TraceAction scheduled_action(const TraceSchedule& schedule, int64_t step);

/// Each rank writes FOLDER/rank<rank>.<number of the first step>.pt.trace.json.gz, with a range
/// ProfilerStep#<number> around each step. All functions are called by the training thread; without
/// a trace they cost nothing. Failures are logged and do not end training. While a daemon may
/// request traces (KINETO_USE_DAEMON), other requests are refused; with a schedule, daemons are
/// ignored.
class Profiler {
 public:
  struct Options {
    ProfilerOptions what;
    std::filesystem::path folder;
    at::Device device = at::kCPU;
    /// Called when a requested trace begins, and when it is finished. done: it was written, and
    /// `text` lists the files of all ranks, one per line; else `text` is the error.
    std::function<void()> asked_begins{};
    std::function<void(bool done, const std::string& text)> asked_ends{};
  };

  /// To be created on all ranks, before there are threads that read the environment. Removes
  /// remnants of killed processes from the folder. UserError if steps are to be traced and this
  /// LibTorch cannot trace.
  Profiler(Options options, Ranks ranks);
  /// After a failed training without finish(): writes the steps that this rank has traced so far.
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  /// Begins step `number`, and ends the previous one.
  void step(int64_t number, const State& state);
  /// Marks the memory of a step whose gradients are computed, for the memory's timeline.
  void mark_memory(const State& state);

  /// Requests a trace of the next `steps` steps, on all ranks at once. Requests before it begins
  /// are combined. 0: does nothing.
  void trace_next(int64_t steps);

  /// Ends training: writes the steps traced so far.
  void finish();

 private:
  /// A trace that is being made.
  struct Trace {
    std::unique_ptr<KinetoTrace> kineto;     ///< null if it failed
    std::unique_ptr<MemoryTimeline> memory;  ///< may be null
    std::string problem;                     ///< the error
    int64_t first = 0, last = 0;             ///< steps
    bool recording = false,
         whole = false;  ///< recording: from the first step on; whole: the last step is recorded
  };

  void end_step();
  void begin_asked();
  void refuse_asked();
  TraceAction next_action();
  void begin_trace();
  void record(int64_t number, const State& state);
  void end_trace();
  /// Writes the trace to a file. Returns the error; empty on success.
  std::string save_trace();
  /// Writes the recorded trace to `path`. Returns the error; empty on success.
  std::string write(const std::filesystem::path& path);
  void answer_asked(const std::string& problem, const std::filesystem::path& path);
  std::filesystem::path file_of_trace() const;
  template <class What>
  void attempt(const What& what);

  const Options options_;
  const Ranks ranks_;
  const bool daemon_;     ///< a daemon may request traces of some rank
  int64_t steps_ = 0;     ///< steps of this process
  bool reached_ = false;  ///< the schedule's first traced step was reached
  int64_t asked_ = 0;     ///< requested steps that have not begun
  /// The schedule of a requested trace; nothing without one.
  std::optional<TraceSchedule> asked_schedule_;
  int64_t asked_step_ = 0;  ///< the next step in asked_schedule_
  std::optional<Trace> trace_;
  std::optional<at::RecordFunction> range_;  ///< the range of the step
};

}  // namespace composer

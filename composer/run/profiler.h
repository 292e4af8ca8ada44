// Traces of a run's steps: those of a schedule, and those that are asked for while it goes on.
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

/// What happens in a step.
enum class TraceAction { none, warmup, record, record_and_save };

/// step: from 0 on.
TraceAction scheduled_action(const TraceSchedule& schedule, int64_t step);

/// Each rank writes FOLDER/rank<rank>.<number of the first step>.pt.trace.json.gz, with a range
/// ProfilerStep#<number> around each step. All functions are of the training thread; while there is
/// nothing to trace they cost nothing. What fails is reported and ends no training. While a daemon
/// may ask for traces (KINETO_USE_DAEMON) there are no others; a schedule keeps daemons out.
class Profiler {
 public:
  struct Options {
    ProfilerOptions what;
    std::filesystem::path folder;
    at::Device device = at::kCPU;
    /// A trace that was asked for begins, and is over: written, with the files of all ranks in
    /// `text`, a line each, or not, and why.
    std::function<void()> asked_begins{};
    std::function<void(bool done, const std::string& text)> asked_ends{};
  };

  /// Made before there are threads that read the environment, on all ranks. Removes what processes
  /// that were killed left in the folder. UserError when steps are to be traced and this LibTorch
  /// cannot.
  Profiler(Options options, Ranks ranks);
  /// Where training failed before finish(): writes what this rank has traced so far.
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  /// Step `number` begins, and the one before is over.
  void step(int64_t number, const State& state);
  /// The gradients of a step are there: for the memory's timeline.
  void mark_memory(const State& state);

  /// Asks for a trace of the next so many steps, on all ranks at once; those asked for while one is
  /// waited for are one. 0: does nothing.
  void trace_next(int64_t steps);

  /// Training is over: writes what has been traced so far.
  void finish();

 private:
  /// One under way.
  struct Trace {
    std::unique_ptr<KinetoTrace> kineto;     ///< null where it failed
    std::unique_ptr<MemoryTimeline> memory;  ///< may be null
    std::string problem;                     ///< why it failed
    int64_t first = 0, last = 0;             ///< steps
    bool recording = false, whole = false;   ///< from the first step on; up to the last
  };

  void end_step();
  void begin_asked();
  void refuse_asked();
  TraceAction next_action();
  void begin_trace();
  void record(int64_t number, const State& state);
  void end_trace();
  /// What was recorded becomes a file. Returns why there is none.
  std::string save_trace();
  /// The same.
  std::string write(const std::filesystem::path& path);
  void answer_asked(const std::string& problem, const std::filesystem::path& path);
  std::filesystem::path file_of_trace() const;
  template <class What>
  void attempt(const What& what);

  const Options options_;
  const Ranks ranks_;
  const bool daemon_;                            ///< may ask some rank for traces
  int64_t steps_ = 0;                            ///< since the run began here
  bool reached_ = false;                         ///< the schedule's first step to trace
  int64_t asked_ = 0;                            ///< steps asked for, not yet begun
  std::optional<TraceSchedule> asked_schedule_;  ///< while such a trace is made
  int64_t asked_step_ = 0;                       ///< within it
  std::optional<Trace> trace_;
  std::optional<at::RecordFunction> range_;  ///< of the step
};

}  // namespace composer

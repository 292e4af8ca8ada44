#include "composer/run/profiler.h"

#include <limits>

#include "base/error.h"
#include "base/files/atomic_file.h"
#include "base/log.h"
#include "base/text.h"
#include "composer/loop/state.h"
#include "nn/device/device.h"
#include "nn/device/exception_text.h"
#include "nn/optimization/optimizer.h"
#include "nn/profiling/kineto.h"
#include "nn/profiling/memory_timeline.h"
#include "nn/profiling/thread_ranges.h"
#include "nn/profiling/trace_file.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

std::string distributed_info(const Ranks& ranks, at::Device device) {
  return std::string("{\"backend\": \"") + (device.is_cuda() ? "nccl" : "gloo") +
         "\", \"rank\": " + std::to_string(ranks.rank()) +
         ", \"world_size\": " + std::to_string(ranks.size()) + "}";
}

std::vector<at::Tensor> tensors_of(const StateDict& state) {
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor] : state.tensors)
    if (!tensor.is_meta()) tensors.push_back(tensor);  // else another rank's
  return tensors;
}

void mark_all(MemoryTimeline& memory, const State& state) {
  auto weights = state.model->parameters();
  std::vector<at::Tensor> gradients;
  for (const auto& weight : weights) gradients.push_back(weight.grad());
  for (const auto& buffer : state.model->buffers()) weights.push_back(buffer);
  memory.mark(MemoryUse::weights, weights);
  memory.mark(MemoryUse::gradients, gradients);
  memory.mark(MemoryUse::optimizer, tensors_of(state.optimizer->state_dict()));
  memory.mark(MemoryUse::input,
              {state.batch.input, state.batch.target.classes, state.batch.target.values});
}

/// Opens Kineto; a schedule excludes a daemon, as they would end each other's traces.
bool open_tracer(const Profiler::Options& options, const Ranks& ranks) {
  const bool scheduled = options.what.schedule.active > 0;
  if (scheduled && ranks.first() && std::getenv(daemon_variable) != nullptr)
    log::warn(std::string("profiler: the tracer has a schedule; ") + daemon_variable +
              " is not heeded");
  return ranks.any(open_kineto(options.device.is_cuda(), !scheduled));
}

std::string whole_path(const fs::path& path) {
  std::error_code unknown;
  const auto whole = fs::absolute(path, unknown);
  return (unknown ? path : whole).string();
}

constexpr std::string_view trace_ending = ".pt.trace.json";

/// Removes unfinished traces of killed processes.
void remove_unfinished(const fs::path& folder) {
  remove_partial_files(folder);
  std::error_code problem;
  fs::directory_iterator entry(folder, problem), end;
  for (; !problem && entry != end; entry.increment(problem)) {
    const auto name = entry->path().filename().string();
    std::error_code ignored;
    if (name.starts_with(".rank") && name.find(trace_ending) != std::string::npos)
      fs::remove(entry->path(), ignored);
  }
}

/// The sum of numbers >= 0, limited to the largest int64_t.
int64_t bounded_sum(int64_t a, int64_t b) {
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  return a > most - b ? most : a + b;
}

}  // namespace

TraceAction scheduled_action(const TraceSchedule& schedule, int64_t step) {
  const int64_t untraced = bounded_sum(schedule.wait, schedule.warmup);
  const int64_t cycle = bounded_sum(untraced, schedule.active);
  if (schedule.active == 0 || step < schedule.skip_first) return TraceAction::none;
  step -= schedule.skip_first;
  if (schedule.repeat > 0 && step / cycle >= schedule.repeat) return TraceAction::none;
  const int64_t place = step % cycle;
  if (place < schedule.wait) return TraceAction::none;
  if (place < untraced) return TraceAction::warmup;
  return place == cycle - 1 ? TraceAction::record_and_save : TraceAction::record;
}

Profiler::Profiler(Options options, Ranks ranks)
    : options_(std::move(options)),
      ranks_(std::move(ranks)),
      daemon_(open_tracer(options_, ranks_)) {
  const bool wanted = options_.what.schedule.active > 0;
  if (wanted && !kineto_available())
    throw UserError("profiler: this LibTorch was built without Kineto, which makes traces");
  if (wanted && options_.folder.empty())
    throw UserError("profiler: needs a run_dir, where traces are written");
  if (ranks_.first() && !options_.folder.empty()) remove_unfinished(options_.folder);
}

Profiler::~Profiler() {
  end_step();
  if (!trace_) return;
  const auto path = file_of_trace();
  const auto problem = save_trace();
  if (!asked_schedule_ || !options_.asked_ends) return;
  const auto left = problem.empty() ? "what it did before is in " + whole_path(path)
                                    : "there is no trace: " + problem;
  options_.asked_ends(false, "training failed; " + left);
}

/// Calls `what`; its exception becomes the trace's problem and does not end training.
template <class What>
void Profiler::attempt(const What& what) {
  try {
    what();
  } catch (const std::exception&) {
    trace_->problem = text_of(std::current_exception());
  }
  if (!trace_->problem.empty()) trace_->memory.reset(), trace_->kineto.reset();
}

void Profiler::trace_next(int64_t steps) { asked_ = std::max(asked_, steps); }

void Profiler::step(int64_t number, const State& state) {
  end_step();
  if (trace_ && trace_->whole) end_trace();
  if (!trace_ && asked_ > 0) daemon_ ? refuse_asked() : begin_asked();
  switch (next_action()) {
    case TraceAction::none:
      if (trace_) end_trace();
      break;
    case TraceAction::warmup:
      if (!trace_) begin_trace();
      break;
    case TraceAction::record:
      record(number, state);
      break;
    case TraceAction::record_and_save:
      record(number, state);
      trace_->whole = true;
      break;
  }
  const bool recorded = trace_ && trace_->recording;
  if (daemon_) tell_daemon_of_step();
  if (!recorded && !daemon_) return;
  range_.emplace(at::RecordScope::USER_SCOPE);
  if (range_->isActive()) range_->before(std::string(step_range) + std::to_string(number));
}

void Profiler::end_step() { range_.reset(); }

void Profiler::begin_asked() {
  asked_schedule_ = TraceSchedule{
      .skip_first = 0, .wait = 0, .warmup = 1, .active = std::exchange(asked_, 0), .repeat = 1};
  asked_step_ = 0;
  if (options_.asked_begins) options_.asked_begins();
}

void Profiler::refuse_asked() {
  asked_ = 0;
  if (options_.asked_begins) options_.asked_begins();
  if (options_.asked_ends)
    options_.asked_ends(false, std::string(daemon_variable) +
                                   " is set for this run: Dynolog's daemon makes its traces (dyno "
                                   "gputrace)");
}

TraceAction Profiler::next_action() {
  const auto planned = scheduled_action(options_.what.schedule, steps_++);
  reached_ |= planned == TraceAction::record || planned == TraceAction::record_and_save;
  return asked_schedule_ ? scheduled_action(*asked_schedule_, asked_step_++) : planned;
}

void Profiler::begin_trace() {
  trace_ = Trace{};
  attempt([&] {
    trace_->kineto = std::make_unique<KinetoTrace>(KinetoTrace::Options{
        .gpu = options_.device.is_cuda(), .record_shapes = options_.what.record_shapes});
  });
}

/// Records step `number`.
void Profiler::record(int64_t number, const State& state) {
  if (!trace_) begin_trace();
  trace_->last = number;
  if (std::exchange(trace_->recording, true)) return;
  trace_->first = number;
  if (!trace_->kineto) return;
  attempt([&] {
    // Without it the trace would have kernels of earlier steps, and lack some of its own.
    synchronize(options_.device);
    trace_->kineto->start(distributed_info(ranks_, options_.device));
    if (!options_.what.profile_memory) return;
    trace_->memory = std::make_unique<MemoryTimeline>(options_.device);
    mark_all(*trace_->memory, state);
  });
}

void Profiler::mark_memory(const State& state) {
  if (trace_ && trace_->memory) mark_all(*trace_->memory, state);
}

fs::path Profiler::file_of_trace() const {
  return options_.folder / ("rank" + std::to_string(ranks_.rank()) + "." +
                            std::to_string(trace_->first) + std::string(trace_ending) + ".gz");
}

void Profiler::end_trace() {
  const auto path = file_of_trace();
  const auto problem = save_trace();
  if (asked_schedule_) answer_asked(problem, path);
}

std::string Profiler::save_trace() {
  const bool recorded = trace_->recording;
  const auto path = file_of_trace();
  const auto problem = recorded ? write(path) : trace_->problem;
  const auto steps = std::to_string(trace_->first) + " to " + std::to_string(trace_->last);
  trace_.reset();
  if (!problem.empty())
    log::warn("there is no trace: " + problem);
  else if (recorded)
    log::info("traced steps " + steps + ": " + path.string());
  return recorded ? problem : "training ended before its first step";
}

std::string Profiler::write(const fs::path& path) {
  const auto raw = path.parent_path() / ("." + path.stem().string());
  auto memory = std::exchange(trace_->memory, nullptr);
  attempt([&] {
    if (!trace_->kineto) return;
    synchronize(options_.device);
    const auto points = memory ? memory->points() : std::vector<MemoryPoint>();
    memory.reset();
    fs::create_directories(path.parent_path());
    trace_->kineto->save(raw);
    compress_trace(raw, path, points);
  });
  std::error_code ignored;
  fs::remove(raw, ignored);
  return trace_->problem;
}

void Profiler::answer_asked(const std::string& problem, const fs::path& path) {
  asked_schedule_.reset();
  const auto problems = ranks_.gather(problem);
  const auto paths = ranks_.gather(whole_path(path));
  if (!options_.asked_ends) return;
  for (size_t rank = 0; rank < problems.size(); ++rank)
    if (!problems[rank].empty())
      return options_.asked_ends(
          false, "rank " + std::to_string(rank) + " has no trace: " + problems[rank]);
  options_.asked_ends(true, joined(paths, "\n"));
}

void Profiler::finish() {
  end_step();
  if (trace_) end_trace();
  if (options_.what.schedule.active > 0 && !reached_ && ranks_.first())
    log::warn("profiler: training ended after " + std::to_string(steps_) +
              " steps, before the first that was to be traced; "
              "--profiler.schedule.skip_first 0 begins at once");
}

}  // namespace composer

#include "analysis/trace/trace_analysis.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "analysis/trace/trace_files.h"
#include "base/error.h"
#include "base/params/value.h"

namespace composer {
namespace {

/// The least share of a step that makes a change worthwhile.
constexpr double kWorthwhile = 0.02;
constexpr size_t kMostAdvice = 3;

std::string in_percent(double share) {
  const auto tenths = static_cast<int64_t>(share * 1000 + 0.5);
  return tenths >= 100 ? std::to_string((tenths + 5) / 10) + " %"
                       : std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " %";
}

/// Finds the changes that would save most, at most three.
class Adviser {
 public:
  explicit Adviser(const TraceAnalysis& analysis) : all_(analysis), slowest_(analysis.slowest()) {}

  std::vector<Advice> take() {
    of_loop();
    of_members();
    of_ranks();
    if (slowest_.device)
      of_device(*slowest_.device);
    else
      of_operators();
    std::ranges::stable_sort(advice_, std::greater(), &Advice::gain);
    if (advice_.size() > kMostAdvice) advice_.resize(kMostAdvice);
    return std::move(advice_);
  }

 private:
  void add(double gain, std::string text) {
    if (gain >= kWorthwhile) advice_.push_back({std::move(text), gain});
  }

  void of_loop() {
    const auto& steps = slowest_.steps;
    const double wait = steps.share(StepPart::data_wait);
    add(wait, "The step waits " + in_percent(wait) +
                  " of its time for data: more loader threads (num_workers), .beton files or an "
                  "index of the crops, smaller images on the disk; `composer bench headspace` says "
                  "which.");
    const double optimizer = steps.share(StepPart::optimizer);
    add(optimizer > 0.08 ? optimizer / 2 : 0,
        "The optimizer takes " + in_percent(optimizer) +
            ": a larger batch with a higher learning rate updates less often; sgd, adamw and their "
            "decoupled forms here do it in one pass over memory.");
    const double evaluation = steps.share(StepPart::evaluation);
    add(evaluation, "Evaluation takes " + in_percent(evaluation) +
                        " of the steps: evaluate less often (eval_interval), or with larger "
                        "batches.");
    const double checkpoint = steps.share(StepPart::checkpoint);
    add(checkpoint, "Checkpoints hold the steps up for " + in_percent(checkpoint) +
                        " of their time: save_async: true, or a longer save_interval.");
    const double rest = steps.share(StepPart::rest);
    add(rest > 0.1 ? rest / 2 : 0, in_percent(rest) +
                                       " of the steps lies in no named range: name what is done "
                                       "there (RECORD_USER_SCOPE), and "
                                       "look whether it must be done in each step.");
  }

  void of_members() {
    const auto& steps = slowest_.steps;
    for (const auto& [key, ns] : steps.sum.parts) {
      const double share = static_cast<double>(ns) / static_cast<double>(steps.sum.total_ns);
      if (key.part == StepPart::algorithm)
        add(share, "The algorithm " + key.name + " takes " + in_percent(share) +
                       ": leave it out, or run it less often where it has an interval, unless "
                       "accuracy needs it.");
      if (key.part == StepPart::callback)
        add(share, "The callback " + key.name + " takes " + in_percent(share) +
                       ": call it less often (its interval).");
    }
  }

  void of_ranks() {
    const double sync = slowest_.steps.share(StepPart::sync);
    add(sync, "Ranks wait " + in_percent(sync) +
                  " of a step for each other: gradients in bf16 (grad_comm), other bucket_mb; a "
                  "rank that is slower than the others holds all of them up.");
    double sum = 0, ranks = 0;
    for (const auto& rank : all_.ranks)
      if (!rank.steps.steps.empty()) sum += rank.mean_step_ns(), ++ranks;
    if (ranks < 2 || sum <= 0) return;
    const double mean = sum / ranks, slowest = slowest_.mean_step_ns();
    const double behind = (slowest - mean) / slowest;
    add(behind, "Rank " + std::to_string(slowest_.rank) + " needs " +
                    in_percent(slowest / mean - 1) +
                    " longer for its steps than ranks do on average: look at its machine, its "
                    "share of cores, and its disk.");
  }

  void of_operators() {
    const auto& operators = slowest_.operators;
    if (operators.self_ns == 0) return;
    const auto share = [&](int64_t ns) {
      return static_cast<double>(ns) / static_cast<double>(operators.self_ns);
    };
    const double copies = share(operators.copies_ns);
    add(copies > 0.03 ? copies : 0,
        "Copies and conversions are " + in_percent(copies) + " of the operators' time: " +
            (all_.recipe.channels_last ? "" : "channels_last keeps one layout, ") +
            (all_.recipe.amp ? "" : "precision: amp converts weights once a step; ") +
            "`composer bench step --operators` counts conversions.");
    const double convolutions = share(operators.convolutions_ns);
    add(convolutions / 3,
        "Convolutions are " + in_percent(convolutions) + " of the operators' time: " +
            (all_.recipe.amp ? "" : "bf16 where the processor has AMX (precision: amp), and ") +
            "fewer pixels at first (progressive_resizing), which saves a third of it or more.");
    const double pointwise = share(operators.pointwise_ns);
    add(pointwise > 0.1 ? pointwise / 2 : 0,
        "Normalisation, activation and addition are " + in_percent(pointwise) +
            " of the operators' time: the fused norms of composer's models are one pass where "
            "these are three.");
    const double mean_ns =
        static_cast<double>(operators.self_ns) / static_cast<double>(operators.calls);
    if (mean_ns < 10'000)
      add(0.25, "Operators are small (" + std::to_string(static_cast<int64_t>(mean_ns / 1000)) +
                    " us on average), so that calling them is much of the time: larger batches.");
  }

  void of_device(const DeviceAnalysis& device) {
    const auto span = static_cast<double>(device.temporal.span_ns);
    if (span <= 0) return;
    const double idle = static_cast<double>(device.temporal.idle_ns) / span;
    int64_t host_wait = 0, all = 0;
    for (const auto& stream : device.idle) {
      host_wait += stream.host_wait_ns;
      all += stream.total_ns();
    }
    const double by_host =
        all <= 0 ? 0 : idle * static_cast<double>(host_wait) / static_cast<double>(all);
    add(by_host, "The device is idle for " + in_percent(idle) + ", " + in_percent(by_host) +
                     " because the host launches too late: cuda_graph: true replays a step in one "
                     "launch; larger batches.");
    add(idle - by_host, "The device is idle for " + in_percent(idle - by_host) +
                            " between its kernels: fewer and larger ones (cuda_graph, fused norms, "
                            "larger batches).");
    const double sends = static_cast<double>(device.types.without_memory[2]) / span;
    add(sends, "Communication that nothing is calculated beside takes " + in_percent(sends) +
                   " of the device's time: smaller bucket_mb begins it earlier, grad_comm: bf16 "
                   "halves it, grad_accum makes it rarer.");
    const double copies = static_cast<double>(device.types.with_memory[4]) / span;
    add(copies, "Copies that nothing is calculated beside take " + in_percent(copies) +
                    " of the device's time: pinned memory and prefetching of batches; no .item() "
                    "or .cpu() in a step.");
    const auto& launches = device.launches;
    if (launches.call.count == 0 || by_host >= kWorthwhile) return;
    const double share =
        static_cast<double>(launches.short_work) / static_cast<double>(launches.call.count);
    if (share > 0.5)
      add(0.05, in_percent(share) +
                    " of the kernels are shorter than the calls that launch them: cuda_graph: "
                    "true, before the host becomes what limits.");
  }

  const TraceAnalysis& all_;
  const RankAnalysis& slowest_;
  std::vector<Advice> advice_;
};

DeviceAnalysis analyze_device(const RankTrace& trace, const Selection& selection,
                              const TraceRules& rules) {
  const auto types = kernel_types(trace.names, rules.as_hta);
  const DeviceTimes times(trace, selection, types);
  return {times.temporal(),
          times.by_type(),
          times.overlap(),
          idle_times(trace, selection, rules.consecutive_kernel_delay_ns),
          kernel_breakdown(trace, selection, types, rules),
          queue_summaries(trace, selection, rules.queue_capacity),
          copy_summaries(trace, selection, types, rules.as_hta),
          launch_statistics(trace, selection, rules)};
}

/// Reads the hparams.yaml beside the folder `traces` that a trace lies in.
TracedRecipe recipe_of(const std::filesystem::path& trace) {
  TracedRecipe recipe;
  const auto folder = std::filesystem::absolute(trace).parent_path();
  std::ifstream file(folder.parent_path() / "hparams.yaml");
  if (folder.filename() != "traces" || !file) return recipe;
  std::ostringstream text;
  text << file.rdbuf();
  Problems problems;
  const auto value = parse_yaml(text.str(), "hparams.yaml", problems);
  if (!value || !problems.empty() || value->kind != Value::Kind::map) return recipe;
  for (const auto& entry : value->entries) {
    if (entry.key == "precision") recipe.amp = one_line(entry.value).starts_with("amp");
    if (entry.key != "algorithms" || entry.value.kind != Value::Kind::map) continue;
    for (const auto& algorithm : entry.value.entries)
      recipe.channels_last |= algorithm.key == "channels_last";
  }
  return recipe;
}

void add_to(std::vector<int64_t>& sum, const std::vector<int64_t>& times) {
  sum.resize(times.size());
  for (size_t i = 0; i < times.size(); ++i) sum[i] += times[i];
}

void sort_by_rank(std::vector<RankAnalysis>& ranks) {
  std::ranges::stable_sort(ranks, {}, &RankAnalysis::rank);
  const auto twice = std::ranges::adjacent_find(ranks, {}, &RankAnalysis::rank);
  if (twice != ranks.end())
    throw UserError(std::next(twice)->file + " and " + twice->file + ": are both of rank " +
                    std::to_string(twice->rank) + "; name one of them");
}

/// A warning if the ranks that mark steps have no step in common; empty otherwise.
std::string no_common_step(const std::vector<RankAnalysis>& ranks) {
  std::map<int64_t, size_t> ranks_by_step;
  size_t marking = 0;
  std::string steps;
  for (const auto& rank : ranks) {
    std::set<int64_t> numbers;
    for (const auto& step : rank.steps.steps) numbers.insert(step.number);
    if (numbers.empty()) continue;
    if (++marking <= 10)
      steps += (marking == 1 ? "" : ", ") + std::to_string(rank.rank) + ": from " +
               std::to_string(*numbers.begin());
    for (const int64_t number : numbers) ++ranks_by_step[number];
  }
  const bool common =
      std::ranges::any_of(ranks_by_step, [&](const auto& step) { return step.second == marking; });
  return marking == 0 || common ? ""
                                : "the ranks' traces have no step in common, so that comparing "
                                  "their times says little (steps of rank " +
                                      steps + ")";
}

}  // namespace

double RankAnalysis::mean_step_ns() const {
  return steps.steps.empty()
             ? 0
             : static_cast<double>(steps.sum.total_ns) / static_cast<double>(steps.steps.size());
}

const RankAnalysis& TraceAnalysis::slowest() const {
  return *std::ranges::max_element(ranks, {}, &RankAnalysis::mean_step_ns);
}

RankAnalysis analyze(const RankTrace& trace, const TraceRules& rules, const RangeNames& names) {
  RankAnalysis result;
  result.rank = trace.rank;
  result.file = trace.file;
  result.bytes = trace.bytes;
  result.events = static_cast<int64_t>(trace.events.size());
  result.base_ns = trace.base_ns;
  result.truncated = trace.truncated;
  result.warnings = trace.warnings;
  if (const auto selection = select(trace, rules.as_hta); !selection.device.empty()) {
    result.last_step_dropped = selection.last_step_dropped;
    result.device = analyze_device(trace, selection, rules);
  }
  if (result.device && !result.last_step_dropped)
    result.warnings.push_back(
        "marks fewer than two steps (ProfilerStep#N): what is said of devices is of all events, "
        "those at the edges included");
  const auto steps = profiler_steps(trace);
  const auto lanes = host_lanes(trace);
  const auto window = window_of(trace, steps);
  result.steps = break_down_steps(trace, steps, lanes, names);
  result.operators = operator_costs(trace, lanes, window);
  result.threads = thread_use(trace, lanes, window);
  return result;
}

TraceAnalysis analyze_traces(const std::vector<std::filesystem::path>& paths,
                             const TraceRules& rules, const RangeNames& names,
                             const std::filesystem::path& counters) {
  const auto traces = find_traces(paths);
  TraceAnalysis analysis;
  for (const auto& file : traces.left_out) analysis.left_out.push_back(file.string());
  analysis.warnings = traces.warnings;
  for (const auto& [rank, path] : traces.files) {
    auto trace = read_trace(path, rules.times());
    if (trace.rank < 0) trace.rank = rank;
    const auto& result = analysis.ranks.emplace_back(analyze(trace, rules, names));
    if (!result.device) continue;
    add_to(analysis.types.without_memory, result.device->types.without_memory);
    add_to(analysis.types.with_memory, result.device->types.with_memory);
    if (counters.empty()) continue;
    const auto copy = counter_trace_path(trace, counters, analysis.counter_traces);
    write_counter_trace(trace, select(trace, rules.as_hta), rules, copy);
    analysis.counter_traces.push_back(copy.string());
  }
  std::vector<std::string> empty;
  for (const auto& rank : analysis.ranks)
    if (rank.events == 0) empty.push_back(rank.file + ": has no events with a duration to analyse");
  if (empty.size() == analysis.ranks.size()) throw UserError(empty);
  analysis.warnings.insert(analysis.warnings.end(), empty.begin(), empty.end());
  if (!traces.files.empty()) analysis.recipe = recipe_of(traces.files.front().path);
  sort_by_rank(analysis.ranks);
  if (auto warning = no_common_step(analysis.ranks); !warning.empty())
    analysis.warnings.push_back(std::move(warning));
  if (!analysis.ranks.empty()) analysis.advice = Adviser(analysis).take();
  return analysis;
}

}  // namespace composer

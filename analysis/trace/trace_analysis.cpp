#include "analysis/trace/trace_analysis.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "analysis/trace/trace_files.h"
#include "base/error.h"
#include "base/params/value.h"

namespace composer {
namespace {

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
  analysis.advice = advice_for(analysis);
  return analysis;
}

}  // namespace composer

#include "analysis/trace/trace_diff.h"

#include <algorithm>
#include <map>

#include "analysis/trace/device_times.h"
#include "analysis/trace/host_times.h"
#include "analysis/trace/trace_files.h"
#include "base/error.h"
#include "base/text.h"

namespace composer {
namespace {

using RowsByName = std::map<std::string, DiffRow>;

/// The file of the requested rank, or of the first.
const TraceFile& file_of_rank(const TraceFiles& traces, const DiffSide& side,
                              const std::filesystem::path& path) {
  if (!side.rank) return traces.files.front();
  const auto found = std::ranges::find(traces.files, *side.rank, &TraceFile::rank);
  if (found != traces.files.end()) return *found;
  std::vector<std::string> ranks;
  for (const auto& file : traces.files) ranks.push_back(std::to_string(file.rank));
  throw UserError(path.string() + ": has no rank " + std::to_string(*side.rank) +
                  "; there are: " + joined(ranks));
}

int64_t number_of_step(const std::vector<ProfilerStep>& steps, const DiffSide& side,
                       const std::filesystem::path& file) {
  if (steps.empty())
    throw UserError(file.string() + ": marks no steps (ProfilerStep#N) to compare");
  if (!side.step) return std::ranges::min(steps, {}, &ProfilerStep::number).number;
  if (std::ranges::find(steps, *side.step, &ProfilerStep::number) != steps.end()) return *side.step;
  std::vector<std::string> numbers;
  for (const auto& step : steps) numbers.push_back(std::to_string(step.number));
  throw UserError(file.string() + ": has no step " + std::to_string(*side.step) +
                  "; there are: " + first_few(numbers));
}

/// Calls each(event) for the events of one step: the host's events that begin in it, then the
/// device events that they launched.
template <class Each>
void each_of_step(const RankTrace& trace, const std::vector<ProfilerStep>& steps, int64_t number,
                  const Each& each) {
  const auto in_step = [&](const TraceEvent& event) {
    const auto* step = step_at(steps, event.start_ns);
    return step != nullptr && step->number == number;
  };
  std::unordered_map<int64_t, bool> launched;
  for (size_t i = 0; i < trace.events.size(); ++i) {
    const auto& event = trace.events[i];
    if (event.on_device()) continue;
    const bool inside = in_step(event);
    if (event.correlation >= 0 && event.category != EventCategory::synchronization)
      launched[event.correlation] = inside;
    if (inside) each(event);
  }
  for (size_t i = 0; i < trace.events.size(); ++i) {
    const auto& event = trace.events[i];
    if (!event.on_device()) continue;
    const auto found = launched.find(event.correlation);
    if (found != launched.end() && found->second) each(event);
  }
}

bool is_asked_for(const TraceEvent& event, DeviceKind device) {
  return device == DeviceKind::all || event.on_device() == (device == DeviceKind::gpu);
}

/// Adds the events of one side to their rows: how many there are to row.*count, their time to
/// row.*ns.
void read_side(const std::filesystem::path& path, const DiffRequest& request, DiffSide& side,
               std::filesystem::path& file, std::vector<std::string>& warnings, RowsByName& rows,
               int64_t DiffRow::*count, int64_t DiffRow::*ns) {
  const auto traces = find_traces({path});
  warnings.insert(warnings.end(), traces.warnings.begin(), traces.warnings.end());
  const auto& taken = file_of_rank(traces, side, path);
  file = taken.path;
  const auto trace =
      read_trace(taken.path, request.as_hta ? TraceTimes::rounded_microseconds : TraceTimes::exact);
  for (const auto& warning : trace.warnings) warnings.push_back(trace.file + ": " + warning);
  const auto steps = profiler_steps(trace);
  side = {trace.rank < 0 ? taken.rank : trace.rank, number_of_step(steps, side, taken.path)};
  std::vector<DiffRow> by_name(trace.names.size());
  each_of_step(trace, steps, *side.step, [&](const TraceEvent& event) {
    if (!is_asked_for(event, request.device) || (event.profiler_step && !request.as_hta)) return;
    ++(by_name[event.name].*count);
    by_name[event.name].*ns += event.duration_ns;
  });
  for (uint32_t i = 0; i < by_name.size(); ++i) {
    if (by_name[i].*count == 0) continue;
    const auto name = trace.names[i];
    auto& row = rows[request.short_names ? short_name(name) : std::string(name)];
    row.*count += by_name[i].*count;
    row.*ns += by_name[i].*ns;
  }
}

}  // namespace

TraceDiff diff_traces(const std::filesystem::path& control, const std::filesystem::path& test,
                      const DiffRequest& request) {
  TraceDiff diff{{}, {}, request.control, request.test, {}, {}};
  RowsByName rows;
  read_side(control, request, diff.control, diff.control_file, diff.warnings, rows,
            &DiffRow::control_count, &DiffRow::control_ns);
  read_side(test, request, diff.test, diff.test_file, diff.warnings, rows, &DiffRow::test_count,
            &DiffRow::test_ns);
  for (auto& [name, row] : rows) {
    row.name = name;
    diff.rows.push_back(std::move(row));
  }
  return diff;
}

}  // namespace composer

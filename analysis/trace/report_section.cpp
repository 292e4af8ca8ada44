#include "analysis/trace/report_section.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "analysis/trace/trace_json.h"
#include "base/number_text.h"
#include "base/text.h"

namespace composer {
namespace {

using Row = std::vector<std::string>;

constexpr size_t kMostOperators = 15, kMostSteps = 12, kMostThreads = 16, kMostParts = 6;

std::string milliseconds(double ns) { return number_text(ns / 1e6, 3); }
std::string milliseconds(int64_t ns) { return milliseconds(static_cast<double>(ns)); }
std::string microseconds(double ns) { return number_text(ns / 1e3, 1); }
std::string in_ms(int64_t ns) { return number_text(static_cast<double>(ns) / 1e6, 2); }
std::string percent(double share) { return number_text(100 * share, 1) + " %"; }
std::string count(int64_t number) { return std::to_string(number); }

double share(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

double bar(int64_t part, int64_t whole) { return std::clamp(share(part, whole), 0.0, 1.0); }

/// The part's name with spaces.
std::string words(StepPart part) {
  std::string text(name(part));
  std::ranges::replace(text, '_', ' ');
  return text;
}

std::string words(const PartKey& key) {
  return key.name.empty() ? words(key.part) : words(key.part) + " " + key.name;
}

std::string rank_of(const RankAnalysis& rank) { return count(rank.rank); }

ReportSection files(const TraceAnalysis& analysis) {
  ReportSection section{"Traces", "", {"rank", "file", "MB", "events", "steps", "ms a step"}, 2};
  if (!analysis.left_out.empty())
    section.note = "left out, as there are others of their ranks: " + first_few(analysis.left_out);
  for (const auto& rank : analysis.ranks)
    section.rows.push_back({rank_of(rank), std::filesystem::path(rank.file).filename(),
                            number_text(static_cast<double>(rank.bytes) / 1e6, 1),
                            count(rank.events), count(std::ssize(rank.steps.steps)),
                            milliseconds(rank.mean_step_ns())});
  return section;
}

ReportSection parts_of_steps(const RankAnalysis& rank) {
  const auto& steps = rank.steps;
  ReportSection section{
      "What a step is made of",
      "rank " + rank_of(rank) + ", the mean of " + std::to_string(steps.steps.size()) +
          " steps, on the thread that trains; named ranges cover " + percent(steps.coverage()),
      {"part", "ms a step", "share"}};
  std::vector<std::pair<PartKey, int64_t>> parts(steps.sum.parts.begin(), steps.sum.parts.end());
  std::ranges::stable_sort(parts, std::greater(), [](const auto& part) { return part.second; });
  const auto number = static_cast<double>(steps.steps.size());
  for (const auto& [key, ns] : parts) {
    section.rows.push_back({words(key), milliseconds(static_cast<double>(ns) / number),
                            percent(share(ns, steps.sum.total_ns))});
    section.bars.push_back(bar(ns, steps.sum.total_ns));
  }
  return section;
}

/// The parts that take most of the steps' time.
std::vector<StepPart> largest_parts(const StepBreakdown& steps) {
  std::vector<StepPart> parts;
  for (size_t i = 0; i < step_part_count; ++i) parts.push_back(static_cast<StepPart>(i));
  std::ranges::stable_sort(parts, std::greater(), [&](auto part) { return steps.of(part); });
  while (parts.size() > kMostParts || (!parts.empty() && steps.of(parts.back()) == 0))
    parts.pop_back();
  return parts;
}

ReportSection step_by_step(const RankAnalysis& rank) {
  ReportSection section{"Step by step", "milliseconds, of rank " + rank_of(rank), {"step", "all"}};
  const auto parts = largest_parts(rank.steps);
  for (const auto part : parts) section.headings.push_back(words(part));
  section.headings.emplace_back("others");
  for (const auto& step : rank.steps.steps) {
    if (section.rows.size() == kMostSteps) break;
    Row row{count(step.number), in_ms(step.total_ns)};
    int64_t others = step.total_ns;
    for (const auto part : parts) {
      const int64_t ns = step.of(part);
      others -= ns;
      row.push_back(in_ms(ns));
    }
    row.push_back(in_ms(others));
    section.rows.push_back(std::move(row));
  }
  return section;
}

/// Shapes without spaces and without empty shapes at the end.
std::string compact(std::string shapes) {
  constexpr std::string_view empty = ",[]]";
  std::erase_if(shapes, [](char letter) { return letter == ' ' || letter == '\n'; });
  while (shapes.ends_with(empty)) shapes.replace(shapes.size() - empty.size(), empty.size(), "]");
  return shapes;
}

ReportSection operators(const RankAnalysis& rank) {
  ReportSection section{"Costliest operators",
                        "self time, without the operators inside, of rank " + rank_of(rank),
                        {"operator", "shapes", "calls", "self ms", "share", "with inner"},
                        2};
  for (const auto& each : rank.operators.by_shapes) {
    if (section.rows.size() == kMostOperators) break;
    section.rows.push_back(
        {each.name, compact(each.shapes), count(each.calls), milliseconds(each.self_ns),
         percent(share(each.self_ns, rank.operators.self_ns)), milliseconds(each.total_ns)});
    section.bars.push_back(bar(each.self_ns, rank.operators.self_ns));
  }
  return section;
}

ReportSection threads(const RankAnalysis& rank) {
  ReportSection section{"Threads",
                        "idle: without an event in the steps' time; threads inside of operators "
                        "leave no events; rank " +
                            rank_of(rank),
                        {"thread", "events", "busy ms", "idle"}};
  for (const auto& thread : rank.threads) {
    if (section.rows.size() == kMostThreads) break;
    section.rows.push_back({thread.thread, count(thread.events), milliseconds(thread.busy_ns),
                            percent(thread.idle_share)});
  }
  return section;
}

/// A section with the rows that add(section, rank, device) makes for each rank with a device.
ReportSection of_devices(const TraceAnalysis& analysis, ReportSection section, auto add) {
  for (const auto& rank : analysis.ranks)
    if (rank.device) add(section, rank_of(rank), *rank.device);
  return section;
}

ReportSection temporal(const TraceAnalysis& analysis) {
  return of_devices(
      analysis,
      {"What devices did",
       "non-compute: nothing is calculated, but something is copied or sent; overlap: of "
       "communication's time, with computation beside it",
       {"rank", "span ms", "idle", "compute", "non-compute", "overlap"}},
      [](auto& section, const auto& rank, const auto& device) {
        const auto& times = device.temporal;
        section.rows.push_back({rank, milliseconds(times.span_ns),
                                percent(share(times.idle_ns, times.span_ns)),
                                percent(share(times.compute_ns, times.span_ns)),
                                percent(share(times.non_compute_ns, times.span_ns)),
                                device.overlap ? percent(*device.overlap) : "-"});
        section.bars.push_back(bar(times.compute_ns, times.span_ns));
      });
}

ReportSection types(const TraceAnalysis& analysis) {
  ReportSection section{"Kernels by type", "over all ranks", {"running", "ms", "share"}};
  const auto& times = analysis.types.with_memory;
  const auto all = std::accumulate(times.begin(), times.end(), int64_t{0});
  for (size_t flags = 1; flags < times.size(); ++flags) {
    if (times[flags] == 0) continue;
    section.rows.push_back(
        {type_combination(flags), milliseconds(times[flags]), percent(share(times[flags], all))});
    section.bars.push_back(bar(times[flags], all));
  }
  return section;
}

/// The kernels of the first rank with a device; the JSON has the other ranks'.
ReportSection kernels(const TraceAnalysis& analysis) {
  return of_devices(
      analysis,
      {"Kernels by name",
       "",
       {"kernel", "type", "rank", "calls", "sum ms", "mean us", "max us"},
       2},
      [first = true](auto& section, const auto& rank, const auto& device) mutable {
        if (!std::exchange(first, false)) return;
        for (const auto& kernel : device.kernels)
          section.rows.push_back({kernel.name == "others" ? kernel.name : short_name(kernel.name),
                                  std::string(name(kernel.type)), rank, count(kernel.calls),
                                  milliseconds(kernel.sum_ns), microseconds(kernel.mean_ns),
                                  microseconds(kernel.max_ns)});
      });
}

ReportSection idle(const TraceAnalysis& analysis) {
  return of_devices(
      analysis,
      {"Why streams were idle",
       "milliseconds; host wait: launched too late; kernel wait: the usual delay between kernels; "
       "other: longer",
       {"rank, stream", "host wait", "kernel wait", "other"}},
      [](auto& section, const auto& rank, const auto& device) {
        for (const auto& stream : device.idle)
          section.rows.push_back(
              {rank + ", " + count(stream.stream), milliseconds(stream.host_wait_ns),
               milliseconds(stream.kernel_wait_ns), milliseconds(stream.other_ns)});
      });
}

ReportSection queues(const TraceAnalysis& analysis) {
  return of_devices(analysis,
                    {"Launches that waited in streams",
                     "blocked: with the queue full",
                     {"rank, stream", "mean", "median", "most", "blocked ms", "blocked"}},
                    [](auto& section, const auto& rank, const auto& device) {
                      for (const auto& queue : device.queues)
                        section.rows.push_back(
                            {rank + ", " + count(queue.stream), number_text(queue.length.mean, 1),
                             number_text(queue.length.median, 0), number_text(queue.length.max, 0),
                             milliseconds(queue.blocked_ns), percent(queue.blocked_share)});
                    });
}

ReportSection copies(const TraceAnalysis& analysis) {
  return of_devices(
      analysis,
      {"Bandwidth of copies",
       "GB/s at the moments at which it changes",
       {"rank, kind", "mean", "median", "max"}},
      [](auto& section, const auto& rank, const auto& device) {
        for (const auto& copy : device.copies)
          section.rows.push_back({rank + ", " + copy.kind, number_text(copy.gb_per_second.mean, 2),
                                  number_text(copy.gb_per_second.median, 2),
                                  number_text(copy.gb_per_second.max, 2)});
      });
}

ReportSection launches(const TraceAnalysis& analysis) {
  return of_devices(
      analysis,
      {"Launches",
       "microseconds; short: work shorter than its call",
       {"rank", "launches", "mean call", "mean work", "mean delay", "short", "slow", "late"}},
      [](auto& section, const auto& rank, const auto& device) {
        const auto& numbers = device.launches;
        section.rows.push_back({rank, count(numbers.call.count), microseconds(numbers.call.mean),
                                microseconds(numbers.work.mean), microseconds(numbers.delay.mean),
                                count(numbers.short_work), count(numbers.slow_calls),
                                count(numbers.late_starts)});
      });
}

std::string side(const DiffSide& side, const std::filesystem::path& file) {
  return file.filename().string() + " (rank " + std::to_string(*side.rank) + ", step " +
         std::to_string(*side.step) + ")";
}

}  // namespace

Report report_of(const TraceAnalysis& analysis) {
  Report report{"Traces of " + quantity(std::ssize(analysis.ranks), "rank")};
  const auto& slowest = analysis.slowest();
  report.sections.push_back(files(analysis));
  if (!slowest.steps.steps.empty()) {
    report.sections.push_back(parts_of_steps(slowest));
    report.sections.push_back(step_by_step(slowest));
  }
  for (const auto& section :
       {temporal(analysis), types(analysis), kernels(analysis), idle(analysis), queues(analysis),
        copies(analysis), launches(analysis), operators(slowest), threads(slowest)})
    if (!section.rows.empty()) report.sections.push_back(section);
  for (const auto& [text, gain] : analysis.advice)
    report.advice.push_back(text + " At most " + percent(gain) + " of a step.");
  report.warnings = analysis.warnings;
  for (const auto& rank : analysis.ranks)
    for (const auto& warning : rank.warnings) report.warnings.push_back(rank.file + ": " + warning);
  return report;
}

Report report_of(const TraceDiff& diff, size_t most_rows) {
  Report report{"Differences of traces", {}, {}, diff.warnings};
  ReportSection section{"By name",
                        side(diff.control, diff.control_file) + " against " +
                            side(diff.test, diff.test_file) + "; milliseconds",
                        {"name", "", "calls", "in test", "change", "ms", "in test", "change"},
                        2};
  auto rows = diff.rows;
  std::ranges::stable_sort(rows, std::greater(),
                           [](const auto& row) { return std::abs(row.time_change_ns()); });
  if (most_rows > 0 && rows.size() > most_rows) {
    section.note += "; the " + std::to_string(most_rows) + " of " + std::to_string(rows.size()) +
                    " names whose time changes most (--all, --json for the others)";
    rows.resize(most_rows);
  }
  for (const auto& row : rows)
    section.rows.push_back({row.name, std::string(1, row.change()), count(row.control_count),
                            count(row.test_count), count(row.count_change()),
                            milliseconds(row.control_ns), milliseconds(row.test_ns),
                            milliseconds(row.time_change_ns())});
  report.sections.push_back(std::move(section));
  return report;
}

}  // namespace composer

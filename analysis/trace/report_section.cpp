#include "analysis/trace/report_section.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "analysis/trace/trace_json.h"
#include "base/number_text.h"
#include "base/text.h"

namespace composer {
namespace {

using Row = std::vector<std::string>;

constexpr size_t kMostOperators = 15, kMostSteps = 12, kMostThreads = 16, kMostParts = 6;

std::string milliseconds(double ns) { return number_text(ns / 1e6, 3); }
std::string microseconds(double ns) { return number_text(ns / 1e3, 1); }
std::string in_ms(int64_t ns) { return number_text(static_cast<double>(ns) / 1e6, 2); }
std::string percent(double share) { return number_text(100 * share, 1) + " %"; }
std::string count(int64_t number) { return std::to_string(number); }

double share(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

double bar(int64_t part, int64_t whole) { return std::clamp(share(part, whole), 0.0, 1.0); }

/// In words.
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
  ReportSection section{"Traces", "", {"rank", "file", "MB", "events", "steps", "ms a step"},
                        {},       2,  {}};
  if (!analysis.left_out.empty())
    section.note = "left out, as there are others of their ranks: " + first_few(analysis.left_out);
  for (const auto& rank : analysis.ranks)
    section.rows.push_back(
        {rank_of(rank), std::filesystem::path(rank.file).filename(),
         number_text(static_cast<double>(rank.bytes) / 1e6, 1), count(rank.events),
         count(static_cast<int64_t>(rank.steps.steps.size())), milliseconds(rank.mean_step_ns())});
  return section;
}

ReportSection parts_of_steps(const RankAnalysis& rank) {
  const auto& steps = rank.steps;
  ReportSection section{"What a step is made of", "", {"part", "ms a step", "share"}, {}, 1, {}};
  section.note = "rank " + rank_of(rank) + ", the mean of " + std::to_string(steps.steps.size()) +
                 " steps, on the thread that trains; named ranges cover " +
                 percent(steps.coverage());
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
  std::vector<StepPart> parts(std::begin(all_step_parts), std::end(all_step_parts));
  std::ranges::stable_sort(parts, std::greater(), [&](auto part) { return steps.of(part); });
  while (parts.size() > kMostParts || (!parts.empty() && steps.of(parts.back()) == 0))
    parts.pop_back();
  return parts;
}

ReportSection step_by_step(const RankAnalysis& rank) {
  ReportSection section{"Step by step", "", {"step", "all"}, {}, 1, {}};
  section.note = "milliseconds, of rank " + rank_of(rank);
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

/// Without spaces, and without the empty ones at the end.
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
                        {},
                        2,
                        {}};
  for (const auto& each : rank.operators.by_shapes) {
    if (section.rows.size() == kMostOperators) break;
    section.rows.push_back({each.name, compact(each.shapes), count(each.calls),
                            milliseconds(static_cast<double>(each.self_ns)),
                            percent(share(each.self_ns, rank.operators.self_ns)),
                            milliseconds(static_cast<double>(each.total_ns))});
    section.bars.push_back(bar(each.self_ns, rank.operators.self_ns));
  }
  return section;
}

ReportSection threads(const RankAnalysis& rank) {
  ReportSection section{"Threads",
                        "idle: without an event in the steps' time; threads inside of operators "
                        "leave no events; rank " +
                            rank_of(rank),
                        {"thread", "events", "busy ms", "idle"},
                        {},
                        1,
                        {}};
  for (const auto& thread : rank.threads) {
    if (section.rows.size() == kMostThreads) break;
    section.rows.push_back({thread.thread, count(thread.events),
                            milliseconds(static_cast<double>(thread.busy_ns)),
                            percent(thread.idle_share)});
  }
  return section;
}

ReportSection temporal(const TraceAnalysis& analysis) {
  ReportSection section{"What devices did",
                        "non-compute: nothing is calculated, but something is copied or sent; "
                        "overlap: of communication's time, with computation beside it",
                        {"rank", "span ms", "idle", "compute", "non-compute", "overlap"},
                        {},
                        1,
                        {}};
  for (const auto& rank : analysis.ranks) {
    if (!rank.device) continue;
    const auto& times = rank.device->temporal;
    section.rows.push_back({rank_of(rank), milliseconds(static_cast<double>(times.span_ns)),
                            percent(share(times.idle_ns, times.span_ns)),
                            percent(share(times.compute_ns, times.span_ns)),
                            percent(share(times.non_compute_ns, times.span_ns)),
                            rank.device->overlap ? percent(*rank.device->overlap) : "-"});
    section.bars.push_back(bar(times.compute_ns, times.span_ns));
  }
  return section;
}

ReportSection types(const TraceAnalysis& analysis) {
  ReportSection section{"Kernels by type", "over all ranks", {"running", "ms", "share"}, {}, 1, {}};
  const auto& times = analysis.types.with_memory;
  int64_t all = 0;
  for (const int64_t ns : times) all += ns;
  for (size_t flags = 1; flags < times.size(); ++flags) {
    if (times[flags] == 0) continue;
    section.rows.push_back({type_combination(flags),
                            milliseconds(static_cast<double>(times[flags])),
                            percent(share(times[flags], all))});
    section.bars.push_back(bar(times[flags], all));
  }
  return section;
}

ReportSection kernels(const TraceAnalysis& analysis) {
  ReportSection section{"Kernels by name",
                        "",
                        {"kernel", "type", "rank", "calls", "sum ms", "mean us", "max us"},
                        {},
                        2,
                        {}};
  for (const auto& rank : analysis.ranks) {
    if (!rank.device) continue;
    for (const auto& kernel : rank.device->kernels)
      section.rows.push_back({kernel.name == "others" ? kernel.name : short_name(kernel.name),
                              std::string(name(kernel.type)), rank_of(rank), count(kernel.calls),
                              milliseconds(static_cast<double>(kernel.sum_ns)),
                              microseconds(kernel.mean_ns), microseconds(kernel.max_ns)});
    break;  // JSON has the other ranks'
  }
  return section;
}

ReportSection idle(const TraceAnalysis& analysis) {
  ReportSection section{"Why streams were idle",
                        "milliseconds; host wait: launched too late; kernel wait: the usual delay "
                        "between kernels; other: longer",
                        {"rank, stream", "host wait", "kernel wait", "other"},
                        {},
                        1,
                        {}};
  for (const auto& rank : analysis.ranks) {
    if (!rank.device) continue;
    for (const auto& stream : rank.device->idle)
      section.rows.push_back({rank_of(rank) + ", " + std::to_string(stream.stream),
                              milliseconds(static_cast<double>(stream.host_wait_ns)),
                              milliseconds(static_cast<double>(stream.kernel_wait_ns)),
                              milliseconds(static_cast<double>(stream.other_ns))});
  }
  return section;
}

ReportSection queues(const TraceAnalysis& analysis) {
  ReportSection section{"Launches that waited in streams",
                        "blocked: with the queue full",
                        {"rank, stream", "mean", "median", "most", "blocked ms", "blocked"},
                        {},
                        1,
                        {}};
  for (const auto& rank : analysis.ranks) {
    if (!rank.device) continue;
    for (const auto& queue : rank.device->queues)
      section.rows.push_back(
          {rank_of(rank) + ", " + std::to_string(queue.stream), number_text(queue.length.mean, 1),
           number_text(queue.length.median, 0), number_text(queue.length.max, 0),
           milliseconds(static_cast<double>(queue.blocked_ns)), percent(queue.blocked_share)});
  }
  return section;
}

ReportSection copies(const TraceAnalysis& analysis) {
  ReportSection section{"Bandwidth of copies",
                        "GB/s at the moments at which it changes",
                        {"rank, kind", "mean", "median", "max"},
                        {},
                        1,
                        {}};
  for (const auto& rank : analysis.ranks) {
    if (!rank.device) continue;
    for (const auto& copy : rank.device->copies)
      section.rows.push_back(
          {rank_of(rank) + ", " + copy.kind, number_text(copy.gb_per_second.mean, 2),
           number_text(copy.gb_per_second.median, 2), number_text(copy.gb_per_second.max, 2)});
  }
  return section;
}

ReportSection launches(const TraceAnalysis& analysis) {
  ReportSection section{
      "Launches",
      "microseconds; short: work shorter than its call",
      {"rank", "launches", "mean call", "mean work", "mean delay", "short", "slow", "late"},
      {},
      1,
      {}};
  for (const auto& rank : analysis.ranks) {
    if (!rank.device) continue;
    const auto& numbers = rank.device->launches;
    section.rows.push_back({rank_of(rank), count(numbers.call.count),
                            microseconds(numbers.call.mean), microseconds(numbers.work.mean),
                            microseconds(numbers.delay.mean), count(numbers.short_work),
                            count(numbers.slow_calls), count(numbers.late_starts)});
  }
  return section;
}

std::string side(const DiffSide& side, const std::filesystem::path& file) {
  return file.filename().string() + " (rank " + std::to_string(*side.rank) + ", step " +
         std::to_string(*side.step) + ")";
}

}  // namespace

Report report_of(const TraceAnalysis& analysis) {
  Report report{"Traces of " + std::to_string(analysis.ranks.size()) +
                    (analysis.ranks.size() == 1 ? " rank" : " ranks"),
                {},
                {},
                {}};
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
                        {},
                        2,
                        {}};
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
                            milliseconds(static_cast<double>(row.control_ns)),
                            milliseconds(static_cast<double>(row.test_ns)),
                            milliseconds(static_cast<double>(row.time_change_ns()))});
  report.sections.push_back(std::move(section));
  return report;
}

}  // namespace composer

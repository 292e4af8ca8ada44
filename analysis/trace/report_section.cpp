#include "analysis/trace/report_section.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "analysis/figure_text.h"
#include "analysis/markup.h"
#include "analysis/trace/trace_json.h"
#include "base/number_text.h"
#include "base/terminal.h"
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

constexpr int64_t kGap = 2, kLeastWords = 12, kName = 34;

/// Narrows the columns of words until the table fits, the last of them first, since the first names
/// the row.
void fit(std::vector<int64_t>& widths, size_t words, int64_t columns) {
  int64_t all = kGap * (std::ssize(widths) - 1);
  for (const int64_t width : widths) all += width;
  for (const int64_t least_name : {kName, kLeastWords})
    for (size_t i = words; i-- > 0;) {
      const int64_t least = i == 0 ? least_name : kLeastWords;
      if (all <= columns || widths[i] <= least) continue;
      const int64_t taken = std::min(all - columns, widths[i] - least);
      widths[i] -= taken, all -= taken;
    }
}

/// `text` with control characters, which could steer a terminal, written as "\x1b".
std::string printable(const std::string& text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto letter = static_cast<unsigned char>(text[i]);
    const bool wide = letter == 0xc2 && i + 1 < text.size() &&  // U+0080 to U+009F
                      static_cast<unsigned char>(text[i + 1]) < 0xa0;
    if (!wide && letter >= 0x20 && letter != 0x7f) {
      result += text[i];
      continue;
    }
    std::array<char, 8> escape{};
    std::snprintf(escape.data(), escape.size(), "\\x%02x",
                  static_cast<unsigned char>(wide ? text[++i] : text[i]));
    result += escape.data();
  }
  return result;
}

ReportSection printable(ReportSection section) {
  section.note = printable(section.note);
  for (auto& row : section.rows)
    for (auto& text : row) text = printable(text);
  return section;
}

/// A line of the table; a cell that is cut ends in "..".
std::string fitted_line(std::vector<std::string> cells, const std::vector<int64_t>& widths,
                        size_t words) {
  for (size_t i = 0; i < cells.size(); ++i)
    if (columns_of(cells[i]) > widths[i]) cells[i] = first_columns(cells[i], widths[i] - 2) + "..";
  return table_line(cells, widths, words);
}

std::string block_bar(double share, int64_t columns) {
  std::string text = "  ";
  for (int64_t i = 0; i < static_cast<int64_t>(share * static_cast<double>(columns) + 0.5); ++i)
    text += "\u2588";
  return text;
}

void append_wrapped(std::string& text, const std::string& words, int64_t columns,
                    const std::string& indent) {
  int64_t used = 0;
  for (size_t at = 0; at < words.size();) {
    size_t end = std::min(words.find(' ', at), words.size());
    if (words.compare(end, 2, " %") == 0) end = std::min(words.find(' ', end + 2), words.size());
    const auto word = words.substr(at, end - at);
    const int64_t width = columns_of(word);
    if (used > 0 && used + 1 + width > columns)
      text += "\n" + indent, used = std::ssize(indent);
    else if (used > 0)
      text += ' ', ++used;
    text += word;
    used += width;
    at = end + 1;
  }
  text += '\n';
}

void append(std::string& text, const ReportSection& section, int64_t columns) {
  auto widths = column_widths(section.headings, section.rows);
  const int64_t bar_columns = columns < 100 ? 12 : 20;
  const bool bars = !section.bars.empty();
  fit(widths, section.words, bars ? columns - bar_columns - kGap : columns);
  text += "\n" + section.title + "\n";
  if (!section.note.empty()) append_wrapped(text, section.note, columns, "");
  text += fitted_line(section.headings, widths, section.words) + "\n";
  for (size_t i = 0; i < section.rows.size(); ++i) {
    text += fitted_line(section.rows[i], widths, section.words);
    if (bars && section.bars[i] > 0.5 / static_cast<double>(bar_columns))
      text += block_bar(section.bars[i], bar_columns);
    text += '\n';
  }
}

std::string drawn_bar(double share) {
  std::array<char, 160> text{};
  std::snprintf(text.data(), text.size(),
                "<svg width=\"160\" height=\"12\" role=\"img\" aria-label=\"%.1f %%\"><rect "
                "width=\"%.1f\" height=\"12\" rx=\"2\"/></svg>",
                100 * share, 160 * share);
  return text.data();
}

/// Markup of `text`, in which text between backticks is code.
std::string with_code(const std::string& text) {
  std::string markup;
  size_t begin = 0;
  for (size_t open; (open = text.find('`', begin)) != std::string::npos;) {
    const size_t close = text.find('`', open + 1);
    if (close == std::string::npos) break;
    markup += escaped(text.substr(begin, open - begin)) +
              element("code", {}, escaped(text.substr(open + 1, close - open - 1)));
    begin = close + 1;
  }
  return markup + escaped(text.substr(begin));
}

void append_row(std::string& page, const std::vector<std::string>& cells, size_t words,
                std::string_view tag, const std::string& last) {
  page += "<tr>";
  for (size_t i = 0; i < cells.size(); ++i)
    page += element(tag, i < words ? Attributes{} : Attributes{{"class", "n"}}, escaped(cells[i]));
  page += last + "</tr>\n";
}

void append(std::string& page, const ReportSection& section) {
  page += "<h2>" + escaped(section.title) + "</h2>\n";
  if (!section.note.empty()) page += "<p>" + escaped(section.note) + "</p>\n";
  page += "<div class=\"wide\"><table>\n";
  const bool bars = !section.bars.empty();
  append_row(page, section.headings, section.words, "th", bars ? "<th></th>" : "");
  for (size_t i = 0; i < section.rows.size(); ++i)
    append_row(page, section.rows[i], section.words, "td",
               bars ? "<td>" + drawn_bar(section.bars[i]) + "</td>" : "");
  page += "</table></div>\n";
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

std::string text_of(const Report& report, int64_t columns) {
  std::string text = report.title + "\n";
  for (const auto& section : report.sections) append(text, printable(section), columns);
  if (!report.advice.empty()) text += "\nWhat would help most\n";
  for (size_t i = 0; i < report.advice.size(); ++i)
    append_wrapped(text, std::to_string(i + 1) + ". " + printable(report.advice[i]), columns,
                   "   ");
  return text;
}

std::string page_of(const Report& report) {
  const auto title = escaped(report.title);
  std::string page =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" +
      title + "</title>\n<style>\n" + std::string(trace_style()) +
      "</style>\n</head>\n<body>\n<h1>" + title + "</h1>\n";
  for (const auto& warning : report.warnings)
    page += "<p class=\"warning\">" + with_code(warning) + "</p>\n";
  if (!report.advice.empty()) page += "<h2>What would help most</h2>\n<ol>\n";
  for (const auto& advice : report.advice) page += "<li>" + with_code(advice) + "</li>\n";
  if (!report.advice.empty()) page += "</ol>\n";
  for (const auto& section : report.sections) append(page, section);
  return page + "</body>\n</html>\n";
}

}  // namespace composer

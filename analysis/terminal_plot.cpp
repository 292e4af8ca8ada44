#include "analysis/terminal_plot.h"

#include <algorithm>
#include <cmath>

#include "analysis/comparison.h"
#include "analysis/figure_text.h"
#include "analysis/run_charts.h"
#include "base/terminal.h"
#include "base/text.h"
#include "nn/network/metric_sense.h"

namespace composer {
namespace {

/// The Braille character (U+2800 and up) with these dots, in UTF-8.
std::string braille(unsigned dots) {
  const unsigned point = 0x2800 + dots;
  return {static_cast<char>(0xe0 | point >> 12), static_cast<char>(0x80 | (point >> 6 & 0x3f)),
          static_cast<char>(0x80 | (point & 0x3f))};
}

/// `text` in one of eight terminal colours, numbered from 0.
std::string colored(const std::string& text, int color) {
  static constexpr int codes[] = {94, 93, 92, 95, 91, 96, 33, 37};
  return "\x1b[" + std::to_string(codes[color % 8]) + "m" + text + "\x1b[39m";
}

std::string spaces(int64_t count) {
  return std::string(static_cast<size_t>(std::max<int64_t>(count, 0)), ' ');
}

std::string heading(const LineChart& chart, int64_t columns) {
  std::string line = "\x1b[1m" + first_columns(chart.title, columns) + "\x1b[22m";
  int64_t taken = columns_of(chart.title);
  if (chart.lines.size() < 2 && !chart.named) return line;
  for (const auto& one : chart.lines) {
    const auto item = "  ━ " + one.name;
    taken += columns_of(item);
    if (taken > columns) break;
    line += "  " + colored("━", one.color) + " " + one.name;
  }
  return line;
}

void draw(DotField& field, const LineChart& chart, const LineChart::Line& line, const Axis& values,
          const Course& course) {
  const size_t reach = trend_reach(chart, line);
  const auto curve = thinned(reach > 0 ? smoothed(line.curve, reach) : line.curve,
                             static_cast<size_t>(field.width() * 3));
  bool pen_down = false;
  int64_t before_x = 0, before_y = 0;
  for (const auto& point : curve.points) {
    if (!std::isfinite(point.value)) {
      pen_down = false;
      continue;
    }
    const auto on = [](double share, int64_t dots) {
      return std::llround(share * static_cast<double>(dots - 1));
    };
    const int64_t x = on(course.place(point), field.width());
    const int64_t y = on(1 - values.place(point.value), field.height());
    if (pen_down && chart.stairs) {
      field.line(before_x, before_y, x, before_y, line.color);
      before_x = x;
    }
    field.line(pen_down ? before_x : x, pen_down ? before_y : y, x, y, line.color);
    before_x = x, before_y = y, pen_down = true;
  }
}

/// The labels of the horizontal axis under a field of `columns` columns.
std::string course_labels(const Course& course, int64_t columns) {
  std::string line;
  int64_t taken = 0;
  const int64_t for_ticks = columns - columns_of(course.title) - 1;
  const auto put = [&](const std::string& text, int64_t at) {
    if (at < taken + (taken > 0 ? 1 : 0) || at + columns_of(text) > for_ticks) return;
    line += spaces(at - taken) + text;
    taken = at + columns_of(text);
  };
  for (const double tick : course.axis.ticks()) {
    const auto text = course.tick(tick);
    const auto middle = std::llround(course.axis.place(tick) * static_cast<double>(columns - 1));
    put(text, std::max<int64_t>(middle - columns_of(text) / 2, 0));
  }
  return line + spaces(for_ticks + 1 - taken) + course.title;
}

using Lines = std::vector<std::string>;

constexpr int64_t least_plot_rows = 7, least_plot_columns = 36, most_evaluations = 5;

std::optional<double> last_value(const Run& run, const std::string& metric) {
  for (auto entry = run.log.rbegin(); entry != run.log.rend(); ++entry)
    if (const auto found = entry->values.find(metric); found != entry->values.end())
      return found->second;
  return {};
}

std::string title_line(const Run& run, int64_t columns) {
  static const std::map<std::string, std::string> colors{
      {"completed", "32"}, {"going on", "34"}, {"interrupted", "33"}};
  const auto status = run.status();
  const auto found = colors.find(status);
  const auto name = first_columns(run.name, std::max<int64_t>(columns - columns_of(status) - 2, 1));
  return "\x1b[1m" + name + "\x1b[22m  \x1b[" + (found == colors.end() ? "31" : found->second) +
         "m" + status + "\x1b[39m";
}

/// `text` with its control characters, which could steer a terminal, replaced by blanks.
std::string in_one_line(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = ' ';
  return text;
}

std::string bar_line(const Run& run, int64_t columns) {
  const auto progress = progress_of(run);
  if (!progress.share) return "";
  std::vector<std::string> parts;
  if (run.going_on && progress.seconds_left)
    parts.push_back(duration_figure(*progress.seconds_left) + " left");
  return progress_line("run", *progress.share, parts, columns);
}

std::string place_line(const Run& run, int64_t columns) {
  const auto outcome = outcome_of(run);
  std::vector<std::string> parts{"epoch " + count_figure(outcome.epochs),
                                 "step " + count_figure(outcome.batches),
                                 duration_figure(outcome.seconds)};
  if (outcome.images_per_second) parts.push_back(figure(*outcome.images_per_second) + " images/s");
  if (outcome.wait_fraction)
    parts.push_back("waits for data " + percent_figure(*outcome.wait_fraction));
  if (const auto rate = last_value(run, "lr")) parts.push_back("lr " + figure(*rate, 3));
  return parts_that_fit(parts, columns);
}

/// "Accuracy" of "metrics/eval/Accuracy" and "metrics/train/Accuracy", "v2/Accuracy" of
/// "metrics/v2/Accuracy".
std::string metric_ending(const std::string& metric) {
  const auto set = evaluation_set(metric);
  const bool further = !set.empty() && set != main_evaluation;
  return metric.substr(metric.find('/', further ? 0 : 8) + 1);
}

/// The last evaluations, newest first: a row has the step, then each metric.
Lines evaluation_table(const Run& run, int64_t columns, int64_t rows) {
  std::vector<const LogEntry*> found;
  for (auto entry = run.log.rbegin(); entry != run.log.rend(); ++entry)
    if (entry->event == "eval" && std::ssize(found) < std::min(rows - 1, most_evaluations))
      found.push_back(&*entry);
  if (found.empty()) return {};
  const auto cell = [](const std::string& text, size_t width) {
    return std::string(width - std::min(width, text.size()), ' ') + text;
  };
  constexpr size_t first = 10;
  std::string head = cell("step", first);
  std::vector<std::pair<std::string, size_t>> metrics;
  for (const auto& [name, value] : found[0]->values) {
    if (evaluation_set(name).empty()) continue;
    const auto shown = metric_ending(name);
    metrics.emplace_back(name, std::max<size_t>(shown.size(), 8) + 2);
    head += cell(shown, metrics.back().second);
  }
  Lines lines{"\x1b[2m" + first_columns(head, columns) + "\x1b[22m"};
  for (const auto* entry : found) {
    std::string line = cell(count_figure(entry->batch), first);
    for (const auto& [name, width] : metrics) {
      const auto value = entry->values.find(name);
      line += cell(value == entry->values.end() ? "" : figure(value->second), width);
    }
    lines.push_back(first_columns(line, columns));
  }
  return lines;
}

/// Charts in as many columns of plots as fit, `rows` rows in all.
Lines plots(const std::vector<LineChart>& charts, int64_t columns, int64_t rows) {
  const int64_t beside = std::clamp<int64_t>(columns / 60, 1, 3);
  const int64_t below =
      std::min<int64_t>(rows / least_plot_rows, (std::ssize(charts) + beside - 1) / beside);
  Lines lines;
  if (below < 1 || columns < least_plot_columns) return lines;
  const int64_t gap = 2, width = (columns - gap * (beside - 1)) / beside;
  for (int64_t row = 0; row < below; ++row) {
    const int64_t height = rows / below;
    Lines band(static_cast<size_t>(height));
    for (int64_t column = 0; column < beside; ++column) {
      const auto index = static_cast<size_t>(row * beside + column);
      if (index >= charts.size()) break;
      const auto plot = terminal_plot(charts[index], Against::batch, width, height);
      for (size_t i = 0; i < band.size(); ++i) {
        const auto room = (width + gap) * column - columns_of(without_colors(band[i]));
        band[i] += spaces(room) + plot[i];
      }
    }
    lines.insert(lines.end(), band.begin(), band.end());
  }
  return lines;
}

}  // namespace

DotField::DotField(int64_t columns, int64_t rows)
    : columns_(columns), rows_(rows), cells_(static_cast<size_t>(columns * rows)) {}

void DotField::dot(int64_t x, int64_t y, int color) {
  if (x < 0 || y < 0 || x >= width() || y >= height()) return;
  static constexpr unsigned bits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
  auto& cell = cells_[static_cast<size_t>(y / 4 * columns_ + x / 2)];
  cell.dots |= bits[y % 4][x % 2], cell.color = color;
}

void DotField::line(int64_t x0, int64_t y0, int64_t x1, int64_t y1, int color) {
  const int64_t steps = std::max({std::abs(x1 - x0), std::abs(y1 - y0), int64_t{1}});
  for (int64_t step = 0; step <= steps; ++step) {
    const double share = static_cast<double>(step) / static_cast<double>(steps);
    dot(x0 + std::llround(share * static_cast<double>(x1 - x0)),
        y0 + std::llround(share * static_cast<double>(y1 - y0)), color);
  }
}

std::vector<std::string> DotField::rows() const {
  std::vector<std::string> lines;
  for (int64_t row = 0; row < rows_; ++row) {
    std::string line;
    for (int64_t column = 0; column < columns_; ++column) {
      const auto& cell = cells_[static_cast<size_t>(row * columns_ + column)];
      line += cell.dots == 0 ? " " : colored(braille(cell.dots), cell.color);
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

std::vector<std::string> row_labels(const Axis& values, int64_t rows,
                                    const std::function<std::string(double)>& label) {
  std::vector<std::string> labels(static_cast<size_t>(rows));
  for (const double tick : values.ticks()) {
    const auto row = std::llround((1 - values.place(tick)) * static_cast<double>(rows - 1));
    labels[static_cast<size_t>(row)] = label(tick);
  }
  return labels;
}

std::vector<std::string> labelled_rows(const DotField& field,
                                       const std::vector<std::string>& labels, int64_t columns) {
  auto rows = field.rows();
  for (size_t i = 0; i < rows.size(); ++i)
    rows[i] = padded(labels[i], columns, true) + (labels[i].empty() ? " │" : " ┤") + rows[i];
  return rows;
}

std::vector<std::string> terminal_plot(const LineChart& chart, Against against, int64_t columns,
                                       int64_t rows) {
  if (!has_points(chart)) {
    std::vector<std::string> words{heading(chart, columns), "not finite throughout"};
    words.resize(static_cast<size_t>(rows));
    return words;
  }
  const auto values = values_axis(chart);
  const auto course = course_of(chart, against);
  const int64_t height = rows - 2;
  const auto labels =
      row_labels(values, height, [&](double tick) { return value_tick(chart, values, tick); });
  int64_t label_columns = 0;
  for (const auto& label : labels) label_columns = std::max(label_columns, columns_of(label));
  DotField field(columns - label_columns - 2, height);
  for (const auto& line : chart.lines) draw(field, chart, line, values, course);
  auto lines = labelled_rows(field, labels, label_columns);
  lines.insert(lines.begin(), heading(chart, columns));
  lines.push_back(spaces(label_columns + 2) + course_labels(course, columns - label_columns - 2));
  return lines;
}

RunProgress progress_of(const Run& run) {
  RunProgress progress;
  const auto last = run.last();
  if (!run.description || !run.description->total_batches) return progress;
  const auto total = static_cast<double>(*run.description->total_batches);
  const auto done = static_cast<double>(last.batch);
  if (total <= 0) return progress;
  progress.share = std::clamp(done / total, 0.0, 1.0);
  const auto before = std::ranges::find_if(
      run.log, [&](const auto& entry) { return static_cast<double>(entry.batch) >= 0.9 * done; });
  if (before == run.log.end() || before->batch == last.batch) return progress;
  const double pace =
      (last.seconds - before->seconds) / static_cast<double>(last.batch - before->batch);
  progress.seconds_left = pace * std::max(total - done, 0.0);
  return progress;
}

std::vector<std::string> watch_screen(const Run& run, int64_t columns, int64_t rows) {
  Lines lines{title_line(run, columns)};
  if (auto bar = bar_line(run, columns); !bar.empty()) lines.push_back(std::move(bar));
  if (run.log.empty())
    lines.push_back(first_columns("nothing is logged yet", columns));
  else
    lines.push_back(place_line(run, columns));
  if (run.summary && !run.going_on && !run.summary->message.empty())
    lines.push_back(first_columns(in_one_line(run.summary->message), columns));
  lines.emplace_back();
  const int64_t room = rows - std::ssize(lines) - 1;
  auto table =
      evaluation_table(run, columns, room > 2 * least_plot_rows ? most_evaluations + 1 : 2);
  const int64_t for_plots = room - std::ssize(table) - 1;
  for (auto& line : plots(main_charts_of({&run, 1}), columns, for_plots))
    lines.push_back(std::move(line));
  if (!table.empty() && std::ssize(lines) < rows - 2) lines.emplace_back();
  lines.insert(lines.end(), table.begin(), table.end());
  lines.resize(static_cast<size_t>(std::max<int64_t>(rows - 1, 0)));
  lines.push_back("\x1b[2m" + first_columns("q leaves", columns) + "\x1b[22m");
  return lines;
}

std::string watch_line(const LogEntry& entry) {
  if (entry.event != "eval" && entry.event != "epoch") return "";
  std::vector<std::string> parts{entry.event == "eval" ? "eval " : "epoch"};
  parts.push_back("epoch " + count_figure(entry.epoch) + ", step " + count_figure(entry.batch));
  for (const auto& [name, value] : entry.values)
    if (name.starts_with("metrics/")) parts.push_back(metric_ending(name) + " " + figure(value));
  if (parts.size() == 2) return "";
  parts.push_back("after " + duration_figure(entry.seconds));
  return joined(parts, "  ");
}

}  // namespace composer

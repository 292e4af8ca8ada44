#include "analysis/terminal_plot.h"

#include <algorithm>
#include <cmath>

#include "analysis/figure_text.h"
#include "base/terminal.h"

namespace composer {
namespace {

/// The Braille character (U+2800 and up) with these dots, in UTF-8.
std::string braille(unsigned dots) {
  const unsigned point = 0x2800 + dots;
  return {static_cast<char>(0xe0 | point >> 12), static_cast<char>(0x80 | (point >> 6 & 0x3f)),
          static_cast<char>(0x80 | (point & 0x3f))};
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

std::string colored(const std::string& text, int color) {
  static constexpr int codes[] = {94, 93, 92, 95, 91, 96, 33, 37};
  return "\x1b[" + std::to_string(codes[color % 8]) + "m" + text + "\x1b[39m";
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

}  // namespace composer

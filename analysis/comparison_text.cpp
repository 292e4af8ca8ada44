// Comparisons for a terminal.
#include <algorithm>

#include "analysis/comparison.h"
#include "base/terminal.h"

namespace composer {
namespace {

std::string padded(const std::string& text, int64_t columns, bool to_the_right) {
  const auto room = std::max<int64_t>(columns - columns_of(text), 0);
  const std::string space(static_cast<size_t>(room), ' ');
  return to_the_right ? space + text : text + space;
}

std::string shortened(const std::string& text, int64_t columns) {
  return columns_of(text) <= columns ? text : first_columns(text, columns - 1) + "…";
}

/// The same, of a dotted key, whose end says most.
std::string ending(std::string text, int64_t columns) {
  if (columns_of(text) <= columns) return text;
  while (columns_of(text) >= columns) text.erase(0, first_columns(text, 1).size());
  return "…" + text;
}

/// Labels, then a column a run.
class TextTable {
 public:
  /// whole: the cells are not shortened.
  void add(const std::string& label, std::vector<std::string> cells, bool whole) {
    rows_.push_back({label, std::move(cells), whole});
  }

  std::string text(int64_t columns) const {
    int64_t labels = 0;
    for (const auto& row : rows_) labels = std::max(labels, columns_of(row.label));
    labels = std::min(labels, columns / 2);
    const size_t count = rows_.front().cells.size();
    const auto widths = widths_for(columns - labels, count);
    std::string all;
    for (size_t begin = 0, end = 0; begin < count; begin = end) {
      int64_t taken = labels;
      while (end < count && (end == begin || taken + gap + widths[end] <= columns))
        taken += gap + widths[end++];
      if (begin > 0) all += "\n";
      for (const auto& row : rows_) all += line_of(row, labels, widths, begin, end);
    }
    return all;
  }

 private:
  struct Row {
    std::string label;
    std::vector<std::string> cells;
    bool whole;
  };

  static constexpr int64_t gap = 2, most_of_shortened = 20;

  std::vector<int64_t> widths_of(size_t count, int64_t most) const {
    std::vector<int64_t> widths(count, 1);
    for (const auto& row : rows_)
      for (size_t i = 0; i < count; ++i) {
        const auto wanted = columns_of(row.cells[i]);
        widths[i] = std::max(widths[i], row.whole ? wanted : std::min(wanted, most));
      }
    return widths;
  }

  /// Nothing is shortened where there is room for everything.
  std::vector<int64_t> widths_for(int64_t columns, size_t count) const {
    auto whole = widths_of(count, columns);
    int64_t taken = 0;
    for (const auto width : whole) taken += gap + width;
    return taken <= columns ? whole : widths_of(count, std::min(most_of_shortened, columns - gap));
  }

  static std::string line_of(const Row& row, int64_t labels, const std::vector<int64_t>& widths,
                             size_t begin, size_t end) {
    std::string line = padded(ending(row.label, labels), labels, false);
    for (size_t i = begin; i < end; ++i)
      line += "  " + padded(shortened(row.cells[i], widths[i]), widths[i], true);
    line.erase(line.find_last_not_of(' ') + 1);
    return line + "\n";
  }

  std::vector<Row> rows_;
};

}  // namespace

std::string text_of(const Comparison& comparison, int64_t columns) {
  TextTable table;
  std::vector<std::string> names;
  const std::vector<std::string> gaps(comparison.runs.size());
  for (const auto& run : comparison.runs) names.push_back(run.name);
  table.add("", names, false);
  for (const auto& row : comparison.outcomes) {
    auto cells = row.cells;
    if (row.winner) cells[*row.winner] = "* " + cells[*row.winner];
    table.add(row.label, std::move(cells), true);
  }
  if (!comparison.differences.empty())
    table.add("", gaps, false), table.add("recipes differ in", gaps, false);
  for (const auto& difference : comparison.differences) {
    std::vector<std::string> cells;
    for (const auto& value : difference.values) cells.push_back(value.value_or("-"));
    table.add("  " + difference.key, std::move(cells), false);
  }
  std::string text = table.text(columns);
  for (const auto& run : comparison.runs)
    for (const auto& file : run.missing) text += run.name + ": has no " + file + "\n";
  return text;
}

}  // namespace composer

#include "cli/table.h"

#include <algorithm>

#include "base/terminal.h"

namespace composer {

std::vector<int64_t> widths_of(const std::vector<Words>& rows) {
  std::vector<int64_t> widths(rows[0].size(), 0);
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], columns_of(row[i]));
  return widths;
}

std::string line_of(const Words& cells, const std::vector<int64_t>& widths,
                    std::string_view sides) {
  std::string line;
  for (size_t i = 0; i < widths.size(); ++i) {
    const auto text = first_columns(cells[i], widths[i]);
    const std::string blanks(static_cast<size_t>(widths[i] - columns_of(text)), ' ');
    const bool left = sides[std::min(i, sides.size() - 1)] == '<';
    line += (i > 0 ? "  " : "") + (left ? text + blanks : blanks + text);
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

std::vector<std::string> aligned(const std::vector<Words>& rows, std::string_view sides) {
  const auto widths = widths_of(rows);
  std::vector<std::string> lines;
  for (const auto& row : rows) lines.push_back(line_of(row, widths, sides));
  return lines;
}

}  // namespace composer

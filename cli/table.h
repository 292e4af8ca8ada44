// Text tables with two spaces between the columns.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.h"

namespace composer {

/// The width of each table column: that of its widest cell.
std::vector<int64_t> widths_of(const std::vector<Words>& rows);

/// The first widths.size() cells as a line without trailing blanks; longer cells are cut. sides:
/// the alignment of each table column, '<' left or '>' right; the last one holds for all further
/// columns.
std::string line_of(const Words& cells, const std::vector<int64_t>& widths, std::string_view sides);

/// The rows as lines of line_of(), as wide as the cells need. rows: one or more.
std::vector<std::string> aligned(const std::vector<Words>& rows, std::string_view sides);

}  // namespace composer

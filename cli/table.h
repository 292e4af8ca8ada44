// Tables of text: columns two spaces apart.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.h"

namespace composer {

/// The columns that the widest cell of each table column takes.
std::vector<int64_t> widths_of(const std::vector<Words>& rows);

/// The first widths.size() cells as a line without blanks at its end; longer cells are cut. sides:
/// '<' for a table column aligned to the left, '>' to the right; the last one holds for the rest.
std::string line_of(const Words& cells, const std::vector<int64_t>& widths, std::string_view sides);

/// All rows as such lines, each column as wide as its widest cell.
std::vector<std::string> aligned(const std::vector<Words>& rows, std::string_view sides);

}  // namespace composer

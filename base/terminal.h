// Text that fits a terminal's line. A column holds one code point of UTF-8.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace composer {

/// Whether output to `file` (a descriptor) gets colours and bold letters: yes on a terminal that
/// TERM knows, unless CLICOLOR=0. CLICOLOR_FORCE, unless empty or 0, says yes for any file;
/// NO_COLOR, unless empty, says no before all others.
bool shows_colors(int file);
std::string without_colors(std::string_view text);

/// The present width of the terminal `file`; 80 where it is not known.
int64_t terminal_columns(int file = STDERR_FILENO);

int64_t columns_of(std::string_view text);

/// The first `columns` columns of `text`.
std::string first_columns(std::string_view text, int64_t columns);

/// The parts, two spaces apart. Parts that do not fit are left out, the last first and parts[kept]
/// after the others; parts[0] stays, cut to the width.
std::string parts_that_fit(std::vector<std::string> parts, int64_t columns, size_t kept = 0);

/// "name ━━━╸    37%  part  part". Parts that do not fit are left out, the last first, then the
/// bar. share: in [0, 1].
std::string progress_line(const std::string& name, double share,
                          const std::vector<std::string>& parts, int64_t columns);

/// Breaks a line into lines of at most `columns` columns, after a comma in the second half of a
/// line or between words. A longer word gets a line of its own.
std::vector<std::string> wrapped(std::string_view line, int64_t columns);

/// Wraps the lines of `text`, keeping each line's indentation, if `file` is a terminal; else
/// returns `text`.
std::string wrapped_for(int file, std::string_view text);

}  // namespace composer

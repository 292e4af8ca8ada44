// What fits on a line of a terminal. A column holds one code point of UTF-8.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace composer {

/// Whether what is written to `file` (a descriptor) shall have colours and bold letters: where it
/// is a terminal that TERM knows. NO_COLOR, unless empty, and CLICOLOR=0 say no; CLICOLOR_FORCE,
/// unless empty or 0, says yes, a terminal or not, to all but NO_COLOR.
bool shows_colors(int file);
std::string without_colors(std::string_view text);

/// Of the terminal that `file` is, at this moment; 80 where that is not known.
int64_t terminal_columns(int file = STDERR_FILENO);

int64_t columns_of(std::string_view text);

/// The beginning of `text`.
std::string first_columns(std::string_view text, int64_t columns);

/// `parts` two spaces apart, left out from the last one on where they do not fit. parts[kept] goes
/// after all others but the first.
std::string parts_that_fit(std::vector<std::string> parts, int64_t columns, size_t kept = 0);

/// "name ━━━╸    37%  part  part": parts that do not fit are left out from the last one on, then
/// the bar. share: in [0, 1]; 100% is everything.
std::string progress_line(const std::string& name, double share,
                          const std::vector<std::string>& parts, int64_t columns);

/// Lines of at most so many columns, broken after a comma in the second half of one, or between
/// words. A longer word has a line of its own.
std::vector<std::string> wrapped(std::string_view line, int64_t columns);

/// The lines of `text` wrapped, each as far indented as it begins, where `file` is a terminal; else
/// `text`.
std::string wrapped_for(int file, std::string_view text);

}  // namespace composer

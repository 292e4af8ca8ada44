// The log: lines for people on standard error, and below them, on a terminal, one that changes.
// Lines never show secrets of addresses (url_secrets.h).
#pragma once

#include <filesystem>
#include <string>

namespace composer::log {

// On a terminal lines are broken between words to fit it.
void info(const std::string& message);
/// The same, once in a process for each text: of what is read several times.
void info_once(const std::string& message);
void warn(const std::string& message);
void error(const std::string& message);

/// Hides info lines.
void quiet();

/// Adds all lines to a file too, whose folder it makes; where it cannot, it warns.
void also_in(const std::filesystem::path& file);
/// Whether lines are in a file too.
bool kept_in_file();
/// Keeps lines from standard error.
void leave_terminal();

/// Puts `line` in place of the status line before; "" takes that away. The next line of the log
/// takes it away too. For a terminal, and not wider than it. Any thread may call any of these.
void status(const std::string& line);

}  // namespace composer::log

// The log: lines for people on standard error and, on a terminal, a status line below them. Lines
// never show secrets of addresses (url_secrets.h). Any thread may call any of these functions.
#pragma once

#include <filesystem>
#include <string>

namespace composer::log {

// On a terminal, lines are broken between words to fit its width.
void info(const std::string& message);
/// Logs each text once in a process.
void info_once(const std::string& message);
void warn(const std::string& message);
void error(const std::string& message);

/// Hides info lines.
void quiet();

/// Also writes all later lines to the file, and makes its folder; a warning when it cannot.
void also_in(const std::filesystem::path& file);
/// Whether lines are also written to a file.
bool kept_in_file();
/// Stops writing to standard error.
void leave_terminal();

/// Replaces the status line; "" removes it, as the next line of the log does. Call it only when
/// standard error is a terminal that is at least as wide as `line`.
void status(const std::string& line);

}  // namespace composer::log

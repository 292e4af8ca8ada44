// What a run wrote down while it trained: its metrics.jsonl.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace composer {

/// One line: what was logged at one place of the run.
struct LogEntry {
  std::string event;                         ///< "batch", "epoch", "eval" or "save"
  int64_t epoch = 0, batch = 0, sample = 0;  ///< trained so far
  double seconds = 0;                        ///< of the run so far, evaluation included
  std::map<std::string, double> values;      ///< by metric; NaN and infinities as they were
};

/// The entries of `file` in order. A last line that ends in the middle, of a run that goes on or
/// was killed, is left out. UserError, with the line, where another line is no such entry or the
/// file cannot be read.
std::vector<LogEntry> read_run_log(const std::filesystem::path& file);

/// The entry that `line` of `file` is; UserError naming both where it is none.
LogEntry read_log_line(const std::string& line, const std::filesystem::path& file, int64_t number);

}  // namespace composer

// What a run wrote down while it trained: its metrics.jsonl.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
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

struct RunLog {
  std::vector<LogEntry> entries;
  int64_t damaged = 0, first_damaged = 0;  ///< lines that are no entries; the first's number from 1
};

/// The entries of `file` in order. A last line that ends in the middle, of a run that goes on or
/// was killed, is left out. UserError where the file cannot be read, or has lines and no entry.
RunLog read_run_log(const std::filesystem::path& file);

/// The entry that a line is; nothing where it is none.
std::optional<LogEntry> read_log_line(const std::string& line);

}  // namespace composer

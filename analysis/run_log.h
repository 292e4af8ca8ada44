// What a run wrote down while it trained: its metrics.jsonl, also while it goes on.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace composer {

/// One line: the values logged at one point of the run.
struct LogEntry {
  std::string event;                         ///< "batch", "epoch", "eval" or "save"
  int64_t epoch = 0, batch = 0, sample = 0;  ///< numbers trained so far
  double seconds = 0;                        ///< since the run began, evaluation included
  std::map<std::string, double> values;      ///< by metric; may be NaN or infinite
};

struct RunLog {
  std::vector<LogEntry> entries;
  int64_t damaged = 0;        ///< number of lines that are no entries
  int64_t first_damaged = 0;  ///< line number of the first of them, from 1
};

/// The entries of `file` in order. An incomplete last line, which a run leaves that goes on or was
/// killed, is left out. UserError if the file cannot be read, or has lines but no entry.
RunLog read_run_log(const std::filesystem::path& file);

/// The entry of a line; nothing if the line is no entry.
std::optional<LogEntry> read_log_line(const std::string& line);

/// Follows metrics.jsonl. It reads each line once, until a resumed run replaces the file.
class RunLogTail {
 public:
  explicit RunLogTail(std::filesystem::path file) : file_(std::move(file)) {}

  /// Appends the new entries to `log`, which holds all earlier ones, and returns whether there were
  /// any. A file that does not exist yet has no entries. Lines that are no entries are left out.
  bool update(std::vector<LogEntry>& log);

 private:
  std::filesystem::path file_;
  ino_t inode_ = 0;
  int64_t position_ = 0;  ///< bytes read so far, in whole lines
};

}  // namespace composer

// The log of a run that goes on.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <vector>

#include "analysis/run_log.h"

namespace composer {

/// Follows metrics.jsonl. What has been read is not read again, until a resumption puts another
/// file in its place.
class RunLogTail {
 public:
  explicit RunLogTail(std::filesystem::path file) : file_(std::move(file)) {}

  /// Adds what is new to `log`, which has all that was read before; whether there was something. A
  /// file that is not there yet has no entries. What is no entry is left out.
  bool update(std::vector<LogEntry>& log);

 private:
  std::filesystem::path file_;
  ino_t inode_ = 0;
  int64_t position_ = 0;  ///< bytes that were read: whole lines
};

}  // namespace composer

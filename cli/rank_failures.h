// The ranks of a machine that failed, and the messages about them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/process/supervisor.h"
#include "cli/commands.h"
#include "cli/rank_logs.h"

namespace composer {

/// Reads what `ended`, which has waited for its children, and `logs` say of the ranks. Ranks are
/// given by their index on this machine. first_rank: the rank of index 0; the output of the job's
/// rank 0 is on the terminal.
class RankFailures {
 public:
  RankFailures(const Supervisor& ended, const RankLogs& logs, int64_t first_rank, int64_t ranks)
      : ended_(ended), logs_(logs), first_rank_(first_rank), ranks_(ranks) {}

  /// The first rank that failed by itself; the job's first rank, whose output is on the terminal,
  /// if it failed with the same status.
  std::optional<size_t> first() const;
  /// Shows how the rank failed.
  void show(size_t number) const;
  /// Shows how ranks were lost when none on this machine failed by itself.
  void show_lost() const;
  /// The names of the ranks that were killed.
  Words killed() const;

 private:
  bool on_terminal(size_t number) const { return first_rank_ == 0 && number == 0; }
  std::string name_of(size_t number) const;
  void show_last_lines(size_t number, const std::string& what) const;

  const Supervisor& ended_;
  const RankLogs& logs_;
  int64_t first_rank_, ranks_;
};

}  // namespace composer

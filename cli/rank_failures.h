// How the ranks of a machine failed, for who reads the log.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/process/supervisor.h"
#include "cli/rank_logs.h"

namespace composer {

/// Of one start of the ranks, all of which have ended.
class RankFailures {
 public:
  /// ranks: by their numbers on this machine, `count` of them. logs: what they printed. first_rank:
  /// the place in the job of the first. That of the job's first rank is on the terminal already.
  RankFailures(const Supervisor& ranks, const RankLogs& logs, int64_t first_rank, int64_t count)
      : ranks_(ranks), logs_(logs), first_rank_(first_rank), count_(count) {}

  /// Of those that failed by themselves. Where the first rank says the same, it has said it on the
  /// terminal.
  std::optional<size_t> first_to_fail() const;
  void show_failure(size_t number) const;
  void warn_of_killed() const;
  /// Of ranks of which none failed by itself on this machine.
  void show_lost() const;

 private:
  std::string name_of(size_t number) const {
    return "rank " + std::to_string(first_rank_ + static_cast<int64_t>(number));
  }
  bool on_terminal(size_t number) const { return first_rank_ == 0 && number == 0; }
  void show_last_lines(size_t number, const std::string& what) const;

  const Supervisor& ranks_;
  const RankLogs& logs_;
  int64_t first_rank_, count_;
};

}  // namespace composer

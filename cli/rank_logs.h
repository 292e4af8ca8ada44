// The output of the ranks of a machine, kept in log files.
#pragma once

#include <cstdint>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace composer {

/// Writes each rank's lines to <run>/logs/rank3.log once the run folder is known; until then keeps
/// the last MiB of them. Warns once when a file cannot be written.
class RankLogs {
 public:
  RankLogs(int64_t first_rank, int64_t ranks);

  /// number: index of the rank on this machine.
  void take(size_t number, std::string_view line);
  /// Sets the run folder; only the first call counts. make: whether to create a missing folder;
  /// otherwise a call with a missing folder does nothing.
  void open(const std::filesystem::path& run, bool make);
  bool opened() const { return !folder_.empty(); }

  /// The newest lines since start_again(), the oldest first.
  const std::deque<std::string>& last_lines(size_t number) const { return ranks_[number].last; }
  /// The log file of a rank; empty before the run folder is known.
  std::filesystem::path file(size_t number) const;
  /// Writes the lines that are still kept in memory to standard error, each after its rank.
  void show_waiting();
  /// Starts a new list of last lines, for restarted ranks.
  void start_again();

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  struct Rank {
    std::string waiting;
    std::deque<std::string> last;
    std::unique_ptr<std::FILE, Close> file;
  };

  void write(size_t number);

  int64_t first_rank_;
  std::vector<Rank> ranks_;
  std::filesystem::path folder_;
  bool warned_ = false;
};

}  // namespace composer

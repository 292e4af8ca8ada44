// What the ranks of a machine print, kept for who looks for it.
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

/// Each rank's lines are in <run>/logs/rank3.log from when the run's folder is known; until then
/// the last MiB of them waits. Where a file cannot be written, a warning says so once.
class RankLogs {
 public:
  RankLogs(int64_t first_rank, int64_t ranks);

  /// number: of the rank on this machine.
  void take(size_t number, std::string_view line);
  /// The run's folder. Later ones than the first are not looked at. make: it is made where it is
  /// not there; else nothing happens then.
  void open(const std::filesystem::path& run, bool make);
  bool opened() const { return !folder_.empty(); }

  /// The newest lines since start_again(), the oldest first.
  const std::deque<std::string>& last_lines(size_t number) const { return ranks_[number].last; }
  /// Empty before the folder is known.
  std::filesystem::path file(size_t number) const;
  /// Writes what still waits, as no folder came, to standard error, each line behind its rank.
  void show_waiting();
  /// New processes take the ranks' places.
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

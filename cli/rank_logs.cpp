#include "cli/rank_logs.h"

#include <cerrno>
#include <cstring>
#include <sstream>
#include <utility>

#include "base/log.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

constexpr size_t most_waiting = 1 << 20;
constexpr size_t most_last_lines = 20;

}  // namespace

RankLogs::RankLogs(int64_t first_rank, int64_t ranks)
    : first_rank_(first_rank), ranks_(static_cast<size_t>(ranks)) {}

void RankLogs::take(size_t number, std::string_view line) {
  auto& rank = ranks_[number];
  rank.last.emplace_back(line);
  if (rank.last.size() > most_last_lines) rank.last.pop_front();
  rank.waiting.append(line) += '\n';
  if (opened())
    write(number);
  else if (rank.waiting.size() > most_waiting)
    rank.waiting.erase(0, rank.waiting.find('\n', rank.waiting.size() - most_waiting) + 1);
}

void RankLogs::open(const fs::path& run, bool make) {
  std::error_code problem;  // ignored: write() reports files that cannot be opened
  if (opened() || (!make && !fs::is_directory(run, problem))) return;
  folder_ = (run / "logs").lexically_normal();
  if (make)
    fs::create_directories(folder_, problem);
  else
    fs::create_directory(folder_, problem);
  for (size_t i = 0; i < ranks_.size(); ++i) write(i);
}

fs::path RankLogs::file(size_t number) const {
  if (!opened()) return {};
  return folder_ / ("rank" + std::to_string(first_rank_ + static_cast<int64_t>(number)) + ".log");
}

void RankLogs::show_waiting() {
  for (size_t i = 0; i < ranks_.size(); ++i) {
    std::istringstream lines(std::exchange(ranks_[i].waiting, {}));
    for (std::string line; std::getline(lines, line);)
      std::fprintf(stderr, "rank %lld: %s\n",
                   static_cast<long long>(first_rank_) + static_cast<long long>(i), line.c_str());
  }
}

void RankLogs::start_again() {
  for (auto& rank : ranks_) rank.last.clear();
}

void RankLogs::write(size_t number) {
  auto& rank = ranks_[number];
  if (!rank.file) rank.file.reset(std::fopen(file(number).c_str(), "ae"));
  const bool written = rank.file && std::fwrite(rank.waiting.data(), 1, rank.waiting.size(),
                                                rank.file.get()) == rank.waiting.size();
  const bool flushed = written && std::fflush(rank.file.get()) == 0;
  if (!flushed && !warned_)
    log::warn(file(number).string() + ": cannot be written: " + std::strerror(errno));
  warned_ = warned_ || !flushed;
  rank.waiting.clear();
}

}  // namespace composer

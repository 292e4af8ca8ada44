#include "cli/rank_failures.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>

#include "base/log.h"
#include "cli/launcher.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

std::string how_it_ended(int status) {
  if (status <= 128) return "failed with status " + std::to_string(status);
  return "was killed by signal " + std::to_string(status - 128) + " (" + ::strsignal(status - 128) +
         ")";
}

}  // namespace

std::optional<size_t> RankFailures::first_to_fail() const {
  const auto by_itself = [&](size_t number) { return ranks_.status(number) != lost_ranks_status; };
  const auto& failed = ranks_.failed();
  const auto first = std::ranges::find_if(failed, by_itself);
  if (first == failed.end()) return {};
  const bool first_rank_too = on_terminal(0) && std::ranges::count(failed, size_t{0}) > 0 &&
                              ranks_.status(0) == ranks_.status(*first);
  return first_rank_too ? 0 : *first;
}

void RankFailures::show_failure(size_t number) const {
  const int status = ranks_.status(number);
  if (!on_terminal(number))
    show_last_lines(number, how_it_ended(status));
  else if (status > 128)
    log::error(name_of(number) + " " + how_it_ended(status));
}

void RankFailures::warn_of_killed() const {
  for (size_t i = 0; i < static_cast<size_t>(count_); ++i)
    if (ranks_.status(i) == 128 + SIGKILL)
      log::warn(name_of(i) + " did not end when it was asked to, and was killed");
}

void RankFailures::show_lost() const {
  for (size_t i = 0; i < static_cast<size_t>(count_); ++i)
    if (ranks_.status(i) == 128 + SIGKILL)
      log::error(name_of(i) + " did not answer any more, and was killed");
  const auto& failed = ranks_.failed();
  const auto first = std::ranges::find_if(
      failed, [&](size_t number) { return !logs_.last_lines(number).empty(); });
  show_last_lines(first == failed.end() ? failed.front() : *first, "lost the other ranks");
}

void RankFailures::show_last_lines(size_t number, const std::string& what) const {
  const auto file = logs_.file(number);
  const auto& lines = logs_.last_lines(number);
  std::string text = name_of(number) + " " + what;
  if (std::error_code none; !file.empty() && fs::exists(file, none))
    text += "; its output is in " + file.string();
  if (!lines.empty()) text += "; its last lines:";
  for (const auto& line : lines) text += "\n  " + line;
  log::error(text);
}

}  // namespace composer

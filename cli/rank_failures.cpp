#include "cli/rank_failures.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/log.h"
#include "cli/launcher.h"

namespace composer {
namespace {

std::string how_it_ended(int status) {
  if (status <= 128) return "failed with status " + std::to_string(status);
  return "was killed by signal " + std::to_string(status - 128) + " (" + ::strsignal(status - 128) +
         ")";
}

}  // namespace

std::optional<size_t> RankFailures::first() const {
  const auto& failed = ended_.failed();
  const auto first = std::ranges::find_if(
      failed, [&](size_t number) { return ended_.status(number) != lost_ranks_status; });
  if (first == failed.end()) return {};
  const bool first_rank_too = on_terminal(0) && std::ranges::count(failed, size_t{0}) > 0 &&
                              ended_.status(0) == ended_.status(*first);
  return first_rank_too ? 0 : *first;
}

void RankFailures::show(size_t number) const {
  const int status = ended_.status(number);
  if (!on_terminal(number))
    show_last_lines(number, how_it_ended(status));
  else if (status > 128)
    log::error(name_of(number) + " " + how_it_ended(status));
}

void RankFailures::show_lost() const {
  for (const auto& name : killed()) log::error(name + " did not answer any more, and was killed");
  const auto& failed = ended_.failed();
  const auto first = std::ranges::find_if(
      failed, [&](size_t number) { return !logs_.last_lines(number).empty(); });
  show_last_lines(first == failed.end() ? failed.front() : *first, "lost the other ranks");
}

Words RankFailures::killed() const {
  Words names;
  for (size_t i = 0; i < static_cast<size_t>(ranks_); ++i)
    if (ended_.status(i) == 128 + SIGKILL) names.push_back(name_of(i));
  return names;
}

std::string RankFailures::name_of(size_t number) const {
  return "rank " + std::to_string(first_rank_ + static_cast<int64_t>(number));
}

void RankFailures::show_last_lines(size_t number, const std::string& what) const {
  const auto file = logs_.file(number);
  const auto& lines = logs_.last_lines(number);
  std::string text = name_of(number) + " " + what;
  if (std::error_code none; !file.empty() && std::filesystem::exists(file, none))
    text += "; its output is in " + file.string();
  if (!lines.empty()) text += "; its last lines:";
  for (const auto& line : lines) text += "\n  " + line;
  log::error(text);
}

}  // namespace composer

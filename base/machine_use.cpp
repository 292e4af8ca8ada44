#include "base/machine_use.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <utility>

#include "base/machine_limits.h"
#include "base/text.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

struct ProcessTimes {
  pid_t parent = 0;
  double own = 0, ended = 0;  ///< ticks; of itself, and of children that have ended
};

/// Nothing for a process that has gone.
std::optional<ProcessTimes> process_times(const fs::path& folder) {
  std::ifstream in(folder / "stat");
  std::string line;
  std::getline(in, line);
  const auto name_end = line.rfind(')');  // the name may hold blanks and brackets
  if (name_end == line.npos) return {};
  std::istringstream words(line.substr(name_end + 1));
  std::string state, unused;
  ProcessTimes times;
  double user = 0, system = 0, user_ended = 0, system_ended = 0;
  words >> state >> times.parent;
  for (int i = 0; i < 9; ++i) words >> unused;
  if (!(words >> user >> system >> user_ended >> system_ended)) return {};
  times.own = user + system, times.ended = user_ended + system_ended;
  return times;
}

/// Ticks of `process` and of all below it.
double ticks_of(const fs::path& root, pid_t process) {
  std::map<pid_t, ProcessTimes> all;
  std::error_code problem;
  for (fs::directory_iterator entry(root / "proc", problem), end; !problem && entry != end;
       entry.increment(problem)) {
    const auto number = to_number<pid_t>(entry->path().filename().string());
    const auto times = number ? process_times(entry->path()) : std::nullopt;
    if (times) all[*number] = *times;
  }
  const auto is_below = [&](pid_t number) {
    for (size_t steps = 0; steps <= all.size(); ++steps) {
      if (number == process) return true;
      const auto found = all.find(number);
      if (found == all.end()) return false;
      number = found->second.parent;
    }
    return false;
  };
  double ticks = 0;
  for (const auto& [number, times] : all)
    if (is_below(number)) ticks += times.own + times.ended;
  return ticks;
}

}  // namespace

OtherPrograms::OtherPrograms(fs::path root, pid_t process)
    : root_(std::move(root)),
      process_(process),
      processors_(scheduled_processors()),
      begin_(read()) {}

OtherPrograms::Times OtherPrograms::read() const {
  Times times;
  std::ifstream in(root_ / "proc/stat");
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    if (!name.starts_with("cpu") || name.size() == 3) continue;
    if (std::ranges::find(processors_, std::atoi(name.c_str() + 3)) == processors_.end()) continue;
    // user, nice, system, idle, iowait, irq, softirq, steal
    double ticks = 0;
    for (int kind = 0; kind < 8 && words >> ticks; ++kind) {
      times.all += ticks;
      if (kind != 3 && kind != 4) times.busy += ticks;
    }
  }
  times.own = ticks_of(root_, process_);
  const auto a_second = static_cast<double>(::sysconf(_SC_CLK_TCK));
  return {times.all / a_second, times.busy / a_second, times.own / a_second};
}

std::optional<double> OtherPrograms::share() const {
  constexpr double least_seconds = 1;
  const auto now = read();
  const double all = now.all - begin_.all;
  if (all < least_seconds) return {};
  const double others = now.busy - begin_.busy - (now.own - begin_.own);
  return std::clamp(others / all, 0.0, 1.0);
}

std::string others_text(double share) {
  return "other programs took " + std::to_string(std::lround(share * 100)) +
         " % of the processors' time";
}

}  // namespace composer

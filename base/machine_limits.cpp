#include "base/machine_limits.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <system_error>
#include <utility>

#include "base/text.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

/// A file's first line; empty where it cannot be read.
std::string line_of(const fs::path& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

/// Nothing for "max", and for the large numbers that mean the same.
std::optional<int64_t> number_of(const std::string& text) {
  constexpr int64_t no_limit = int64_t{1} << 60;
  std::istringstream stream(text);
  int64_t number = 0;
  if (!(stream >> number) || number < 0 || number >= no_limit) return std::nullopt;
  return number;
}

template <class T>
void narrow(std::optional<T>& limit, const std::optional<T>& other) {
  if (other && (!limit || *other < *limit)) limit = other;
}

/// The control group of this process for each controller: "cpu", "memory", ... in version 1, "" in
/// version 2.
std::map<std::string, std::string> groups_of_process(const fs::path& root) {
  std::map<std::string, std::string> groups;
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    std::istringstream names(line.substr(first + 1, second - first - 1));
    std::string name;
    do {
      name.clear();
      std::getline(names, name, ',');
      groups[name] = line.substr(second + 2);
    } while (!names.eof());
  }
  return groups;
}

/// The folders of a group and of the groups above it. In a container they may be missing.
std::vector<fs::path> folders_up(const fs::path& mount, const std::string& group) {
  std::vector<fs::path> folders{mount};
  fs::path folder = mount;
  for (const auto& part : fs::path(group)) {
    folder /= part;
    std::error_code refused;
    if (fs::is_directory(folder, refused) && !part.empty()) folders.push_back(folder);
  }
  return folders;
}

std::optional<double> quota(const std::string& budget, const std::string& period) {
  const auto time = number_of(budget), of = number_of(period);
  if (!time || !of || *of == 0) return std::nullopt;
  return static_cast<double>(*time) / static_cast<double>(*of);
}

/// The number behind `key` in a file of lines "KEY NUMBER"; 0 where the key is missing.
int64_t number_in(const fs::path& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(key + " ")) return number_of(line.substr(key.size())).value_or(0);
  return 0;
}

struct MemoryFiles {
  const char *limit, *used;
  const char *inactive, *active;  ///< keys of memory.stat: cached files that the system can drop
};

void narrow_memory(const fs::path& folder, const MemoryFiles& files, MachineLimits& limits) {
  const auto limit = number_of(line_of(folder / files.limit));
  if (!limit) return;
  const auto used = number_of(line_of(folder / files.used));
  const int64_t cache = number_in(folder / "memory.stat", files.inactive) +
                        number_in(folder / "memory.stat", files.active);
  narrow(limits.memory_limit_bytes, limit);
  narrow(limits.memory_room_bytes,
         std::optional(*limit - std::max<int64_t>(0, used.value_or(0) - cache)));
}

void read_version_2(const fs::path& mount, const std::string& group, MachineLimits& limits) {
  for (const auto& folder : folders_up(mount, group)) {
    std::string budget, period;
    std::istringstream(line_of(folder / "cpu.max")) >> budget >> period;
    narrow(limits.processor_quota, quota(budget, period));
    narrow_memory(folder, {"memory.max", "memory.current", "inactive_file", "active_file"}, limits);
  }
}

void read_version_1(const fs::path& mount, const std::map<std::string, std::string>& groups,
                    MachineLimits& limits) {
  if (const auto group = groups.find("cpu"); group != groups.end())
    for (const auto& folder : folders_up(mount / "cpu", group->second))
      narrow(limits.processor_quota,
             quota(line_of(folder / "cpu.cfs_quota_us"), line_of(folder / "cpu.cfs_period_us")));
  if (const auto group = groups.find("memory"); group != groups.end())
    for (const auto& folder : folders_up(mount / "memory", group->second))
      narrow_memory(folder,
                    {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file",
                     "total_active_file"},
                    limits);
}

struct ProcessTimes {
  pid_t parent = 0;
  double own = 0, ended = 0;  ///< ticks of itself, and of its children that have ended
};

/// Nothing for a process that has ended.
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

/// The ticks of `process` and all its descendants.
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

MachineLimits read_machine_limits(const fs::path& root) {
  MachineLimits limits;
  limits.processors = ::sysconf(_SC_NPROCESSORS_ONLN);
  limits.allowed_processors = std::max<int64_t>(std::ssize(scheduled_processors()), 1);
  limits.memory_bytes = 1024 * number_in(root / "proc/meminfo", "MemTotal:");
  limits.available_bytes = 1024 * number_in(root / "proc/meminfo", "MemAvailable:");
  const auto groups = groups_of_process(root);
  const auto mount = root / "sys/fs/cgroup";
  if (const auto group = groups.find(""); group != groups.end())
    read_version_2(mount, group->second, limits);
  read_version_1(mount, groups, limits);
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0)
    limits.open_files = files.rlim_cur == RLIM_INFINITY ? -1 : static_cast<int64_t>(files.rlim_cur);
  struct statvfs shared {};
  if (::statvfs("/dev/shm", &shared) == 0)
    limits.shared_memory_bytes = static_cast<int64_t>(shared.f_blocks * shared.f_frsize);
  if (::getloadavg(&limits.load, 1) != 1) limits.load = 0;
  return limits;
}

std::vector<int> scheduled_processors() {
  std::vector<int> numbers;
  for (int most = CPU_SETSIZE; most <= (1 << 20); most *= 2) {
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(most),
                                                               [](cpu_set_t* s) { CPU_FREE(s); });
    const size_t size = CPU_ALLOC_SIZE(most);
    if (::sched_getaffinity(0, size, set.get()) == 0) {
      for (int number = 0; number < most; ++number)
        if (CPU_ISSET_S(static_cast<size_t>(number), size, set.get())) numbers.push_back(number);
      break;
    }
    if (errno != EINVAL) break;  // EINVAL: the machine has more processors
  }
  return numbers;
}

int64_t usable_processors(const MachineLimits& limits) {
  const int64_t allowed = std::max<int64_t>(limits.allowed_processors, 1);
  if (!limits.processor_quota || *limits.processor_quota >= static_cast<double>(allowed))
    return allowed;
  return std::max<int64_t>(static_cast<int64_t>(*limits.processor_quota), 1);
}

int64_t room_for_memory(const MachineLimits& limits) {
  return std::min(limits.available_bytes,
                  limits.memory_room_bytes.value_or(limits.available_bytes));
}

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

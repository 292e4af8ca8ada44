#include "base/machine_limits.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <system_error>

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

/// Nothing for "max", and for numbers that stand for it.
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

/// The group of this process by controller: "cpu,cpuacct" and "memory" of version 1, "" of 2.
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

/// The folders of a group and of those above it. In a container its path may not be there.
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

/// The number behind `key` in a file of such lines; 0 where it is not there.
int64_t number_in(const fs::path& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(key + " ")) return number_of(line.substr(key.size())).value_or(0);
  return 0;
}

struct MemoryFiles {
  const char *limit, *used;
  const char *inactive, *active;  ///< keys of memory.stat: of files that the system can forget
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
    if (errno != EINVAL) break;  // which says that the machine has more
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

}  // namespace composer

// What the system lets this process use.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace composer {

struct MachineLimits {
  int64_t processors = 0;                 ///< of the machine
  int64_t allowed_processors = 0;         ///< that the scheduler lets this process run on
  std::optional<double> processor_quota;  ///< of its container, in processors
  int64_t memory_bytes = 0, available_bytes = 0;
  std::optional<int64_t> memory_limit_bytes, memory_room_bytes;  ///< of its container
  int64_t open_files = 0;           ///< that a process may have; -1: any number
  int64_t shared_memory_bytes = 0;  ///< size of /dev/shm; 0: there is none
  double load = 0;                  ///< processes that ran or wanted to, over the last minute
};

/// What cannot be read is 0 or absent. root: of the files of /proc and /sys.
MachineLimits read_machine_limits(const std::filesystem::path& root = "/");

/// Numbers of the processors that the scheduler lets the calling thread run on, however many the
/// machine has; empty where it does not tell.
std::vector<int> scheduled_processors();

/// Processors that this process may compute on: those that the scheduler lets it run on, or the
/// whole ones of a smaller quota; at least 1.
int64_t usable_processors(const MachineLimits& limits);

/// Bytes that programs may still take, by the machine and by this process's container.
int64_t room_for_memory(const MachineLimits& limits);

/// Of a container or another control group (version 1 or 2), each the narrowest on the way up.
struct GroupLimits {
  std::optional<double> processors;
  std::optional<int64_t> memory_bytes;
  /// What a group's limit leaves of its memory; files that the system could forget do not count.
  std::optional<int64_t> memory_room_bytes;
};
GroupLimits read_group_limits(const std::filesystem::path& root = "/");

}  // namespace composer

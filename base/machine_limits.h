// The parts of the machine that this process may use, and that other programs use.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace composer {

struct MachineLimits {
  int64_t processors = 0;           ///< the machine's processors
  int64_t allowed_processors = 0;   ///< processors that the scheduler grants this process
  int64_t memory_bytes = 0;         ///< the machine's memory
  int64_t available_bytes = 0;      ///< memory that programs may still take
  int64_t open_files = 0;           ///< the most files a process may open; -1: unlimited
  int64_t shared_memory_bytes = 0;  ///< the size of /dev/shm; 0 without one
  double load = 0;                  ///< the load average of the last minute
  // The limits of the container, or of another control group of version 1 or 2: the narrowest of
  // the process's group and the groups above it.
  std::optional<double> processor_quota;  ///< in processors
  std::optional<int64_t> memory_limit_bytes;
  /// The part of the limit that is not used. Cached files that the system can drop do not count.
  std::optional<int64_t> memory_room_bytes;
};

/// Values that cannot be read are 0 or absent. root: the folder that has proc/ and sys/.
MachineLimits read_machine_limits(const std::filesystem::path& root = "/");

/// The numbers of the processors that the scheduler lets the calling thread run on; empty where
/// they are not known.
std::vector<int> scheduled_processors();

/// The number of processors to compute on: those that the scheduler grants, or a smaller quota
/// rounded down; at least 1.
int64_t usable_processors(const MachineLimits& limits);

/// Bytes that this process may still allocate, within the machine's memory and its container's.
int64_t room_for_memory(const MachineLimits& limits);

/// The share of other programs from which on the machine is busy and measured times are doubtful.
inline constexpr double busy_share = 0.1;

/// Measures other programs' share from its construction on.
class OtherPrograms {
 public:
  /// root: the folder that has proc/. process: the process whose own time, with that of its
  /// descendants, does not count as other programs'.
  explicit OtherPrograms(std::filesystem::path root = "/", pid_t process = ::getpid());

  /// The share, in [0, 1], of the time of the processors that this process may run on which other
  /// programs, or the host of a virtual machine, have used since the construction. Nothing where it
  /// is not known, or after less than one second of processor time.
  std::optional<double> share() const;

 private:
  struct Times {
    double all = 0, busy = 0;  ///< seconds of these processors
    double own = 0;            ///< seconds of the process and its descendants
  };
  Times read() const;

  std::filesystem::path root_;
  pid_t process_;
  std::vector<int> processors_;
  Times begin_;
};

/// "other programs took 48 % of the processors' time".
std::string others_text(double share);

}  // namespace composer

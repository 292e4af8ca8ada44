// The store where the processes of a job meet: its ranks, and the launchers that started them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "base/error.h"
#include "base/rank_environment.h"

namespace c10d {
class Store;
}  // namespace c10d

namespace composer {

/// Address of a job's store.
struct MeetingPoint {
  std::string address = "127.0.0.1";  ///< address of the host
  uint16_t port = 0;                  ///< 0: any free port, for the host alone
  /// The job's secret. All keys in the store are derived from it, so a process without it can
  /// neither find keys nor set keys before the job does. May be empty.
  std::string secret{};
  /// All processes are on this machine; no other machine can reach the host.
  bool one_machine = true;
};

/// The store has a value that no process of this job can have set.
class ForeignValue : public RunError {
 public:
  using RunError::RunError;
};

/// A value; copies refer to the same store. RunError when the host is gone.
class JobStore {
 public:
  /// Hosts the store until the last copy is destroyed. UserError when the port is not available.
  /// timeout_seconds, here and below: for every call that waits.
  static JobStore host(const MeetingPoint& point, double timeout_seconds);
  /// Waits for the host to come. LostRankError when it does not.
  static JobStore connect(const MeetingPoint& point, double timeout_seconds);
  /// Hosts the store or connects to it, as `environment` says.
  static JobStore of(const RankEnvironment& environment, double timeout_seconds);

  uint16_t port() const;
  /// Every process that asks from now on sees the value.
  void set(const std::string& key, const std::string& value);
  /// Nothing where no process has set the key; never waits for it.
  std::optional<std::string> get(const std::string& key);
  /// get() for a whole number. ForeignValue where the value is not a whole number in [least, most].
  std::optional<int64_t> get_number(const std::string& key, int64_t least, int64_t most);
  /// Adds to a number, which starts at 0; returns the sum.
  int64_t add(const std::string& key, int64_t value);

  /// For process groups; their keys differ from all keys above. It lives as long as the last copy
  /// of this object, or as LibTorch's pointers to it.
  c10d::Store& store() const;

 private:
  struct Tcp;
  explicit JobStore(std::shared_ptr<Tcp> tcp);

  std::shared_ptr<Tcp> tcp_;
};

/// Tells the launcher the folder of this process's run, and writes a copy of the log to
/// logs/rank0.log in it, as the launcher does for other ranks. Does nothing where no launcher hosts
/// the store.
void tell_run_folder(const RankEnvironment& environment, const std::filesystem::path& folder);

/// Reports that a save of this job has written this many more bytes.
void tell_saved(JobStore& store, int64_t bytes);
/// All bytes that saves have reported.
int64_t told_saved(JobStore& store);

/// While it lives, it reports to the launcher, again and again, the progress of this process's
/// saves (save_progress.h). Only on rank 0, and only where a launcher of this program hosts the
/// store.
class SaveReports {
 public:
  explicit SaveReports(const RankEnvironment& environment);

 private:
  std::jthread thread_;
};

/// The run folder that this start of the ranks, or one before, has reported. ForeignValue where it
/// is no absolute path.
std::optional<std::filesystem::path> told_run_folder(JobStore& store);
std::optional<std::filesystem::path> told_run_folder(const RankEnvironment& environment);

}  // namespace composer

// The store where the processes of a job meet: its ranks, and the launchers that started them.
#pragma once

#include <ATen/ATen.h>

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

/// Where the processes of a job meet.
struct MeetingPoint {
  std::string address = "127.0.0.1";  ///< of the host
  uint16_t port = 0;                  ///< 0: any that is free, for the host alone
  /// Of the job. All names in the store are made with it, so that whoever does not know it finds
  /// none, nor sets what the job has not set yet. May be empty.
  std::string secret{};
  bool one_machine = true;  ///< all are on this one: none other reaches the host
};

/// A store has what nobody of this job can have set.
class ForeignValue : public RunError {
 public:
  using RunError::RunError;
};

/// A value; copies are the same store. RunError when its host is gone.
class JobStore {
 public:
  /// Hosts it until the last copy goes. UserError when the port cannot be had. timeout_seconds,
  /// here as below: of whoever waits in it.
  static JobStore host(const MeetingPoint& point, double timeout_seconds);
  /// Waits for the host to come. LostRankError when it does not.
  static JobStore connect(const MeetingPoint& point, double timeout_seconds);
  /// As this rank's place says: hosts it or connects.
  static JobStore of(const RankEnvironment& environment, double timeout_seconds);

  uint16_t port() const;
  /// Every process that asks from then on sees the value.
  void set(const std::string& key, const std::string& value);
  /// Nothing where nobody has set it; never waits for that.
  std::optional<std::string> get(const std::string& key);
  /// The same of a number. ForeignValue where it is none of these.
  std::optional<int64_t> get_number(const std::string& key, int64_t least, int64_t most);
  /// Adds to a number, which is 0 before; returns the sum.
  int64_t add(const std::string& key, int64_t value);

  /// For process groups, whose names are apart from those of the keys above.
  c10::intrusive_ptr<c10d::Store> store() const;

 private:
  struct Tcp;
  explicit JobStore(std::shared_ptr<Tcp> tcp);

  std::shared_ptr<Tcp> tcp_;
};

/// Tells the launcher where the files of this process's run are, and keeps a copy of the log there
/// as the launcher does for other ranks: logs/rank0.log. Nothing where no launcher hosts the store.
void tell_run_folder(const RankEnvironment& environment, const std::filesystem::path& folder);

/// A save of this job has advanced by so many bytes.
void tell_saved(JobStore& store, int64_t bytes);
/// By how many bytes saves have, in all.
int64_t told_saved(JobStore& store);

/// While it lives, the launcher is told again and again how far this process, the first rank, has
/// got with what it saves (save_progress.h). Nothing in others, and where no launcher of this
/// program hosts the store.
class SaveReports {
 public:
  explicit SaveReports(const RankEnvironment& environment);

 private:
  std::jthread thread_;
};

/// What was told, by this start of the ranks or by one before. ForeignValue where it is no absolute
/// path.
std::optional<std::filesystem::path> told_run_folder(JobStore& store);
std::optional<std::filesystem::path> told_run_folder(const RankEnvironment& environment);

}  // namespace composer

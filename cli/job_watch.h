// Messages between the launchers and ranks of a job, and a thread that polls them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "nn/distributed/job_store.h"

namespace composer {

struct JobNews {
  std::optional<std::filesystem::path> run_folder;
  std::optional<int> status;  ///< exit status of a launcher whose ranks failed
  int64_t starts = 0;         ///< restarts of all ranks
  int64_t saved = 0;          ///< bytes that the first rank has saved so far
};

/// Messages between launchers. As with JobStore, RunError when its host is gone, ForeignValue for a
/// value that no launcher wrote. The number of restarts of the ranks:
void tell_starts(JobStore& store, int64_t starts);
int64_t told_starts(JobStore& store);
/// The exit status of the job, 1 to 255, once the ranks will not be restarted.
void tell_status(JobStore& store, int status);
std::optional<int> told_status(JobStore& store);
/// The number of launchers that have left, without the launcher of the first machine.
void tell_left(JobStore& store);
int64_t told_left(JobStore& store, int64_t machines);

/// All messages of launchers and ranks.
JobNews ask_for_news(JobStore& store);

/// Polls a store on a thread of its own, so that news() never blocks, even when the store's host is
/// gone and no answer comes.
class JobWatch {
 public:
  /// ask: reads the store; called on the thread, which outlives this object while no answer comes.
  /// silence_seconds: the host counts as gone after this many seconds without an answer.
  JobWatch(JobStore store, std::function<JobNews(JobStore&)> ask, double silence_seconds);
  /// Waits at most a second for the pending answer.
  ~JobWatch();
  JobWatch(const JobWatch&) = delete;
  JobWatch& operator=(const JobWatch&) = delete;

  /// The last answer. Call it about once a second. RunError when the host is gone; rethrows what
  /// `ask` threw.
  JobNews news();

 private:
  struct Heard;

  std::shared_ptr<Heard> heard_;
  double silence_seconds_;
  double read_at_;       ///< seconds of the steady clock
  double silent_ = 0;    ///< seconds without an answer
  int64_t answers_ = 0;  ///< value of Heard::answers at read_at_
  std::thread thread_;
};

}  // namespace composer

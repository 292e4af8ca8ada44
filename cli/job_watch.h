// What the launchers and ranks of a job tell each other, heard by a thread of its own.
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
  std::optional<int> status;  ///< that a launcher has left with, if its ranks did not end well
  int64_t starts = 0;         ///< of all ranks, after the first
  int64_t saved = 0;          ///< bytes by which saves of the first rank have advanced
};

/// What launchers tell each other; as of JobStore, RunError when its host is gone, ForeignValue
/// where it has what none of them told. How often the ranks were started again:
void tell_starts(JobStore& store, int64_t starts);
int64_t told_starts(JobStore& store);
/// The status that the job ends with, in 1 to 255, once the ranks will not be started again.
void tell_status(JobStore& store, int status);
std::optional<int> told_status(JobStore& store);
/// Launchers but the first, one a machine, that have left.
void tell_left(JobStore& store);
int64_t told_left(JobStore& store, int64_t machines);

/// All of it, with what the ranks have told.
JobNews ask_for_news(JobStore& store);

/// Asks a store again and again. Who reads what was heard never waits, also where the store's host
/// is gone without a word, so that an answer may never come.
class JobWatch {
 public:
  /// ask: called by the thread, which may outlive this where no answer comes. silence_seconds:
  /// without an answer, then the host is gone.
  JobWatch(JobStore store, std::function<JobNews(JobStore&)> ask, double silence_seconds);
  /// Waits for an answer that is due, but no longer than a second.
  ~JobWatch();
  JobWatch(const JobWatch&) = delete;
  JobWatch& operator=(const JobWatch&) = delete;

  /// What was heard last; to be called about every second. RunError when the host is gone, and what
  /// `ask` threw.
  JobNews news();

 private:
  struct Heard;

  std::shared_ptr<Heard> heard_;
  double silence_seconds_;
  double read_at_;       ///< seconds of the steady clock
  double silent_ = 0;    ///< seconds without an answer
  int64_t answers_ = 0;  ///< by then
  std::thread thread_;
};

}  // namespace composer

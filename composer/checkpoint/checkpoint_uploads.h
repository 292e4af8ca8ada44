// Copies checkpoints to a store while training goes on.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "composer/checkpoint/checkpoint_store.h"

namespace composer {

/// One thread, which nobody waits for but at the end. The files of a checkpoint that waits for its
/// turn are kept, whatever becomes of the checkpoint itself.
class CheckpointUploads {
 public:
  /// folder: that of the local checkpoints. newest_to_keep: as of those, -1: all.
  CheckpointUploads(CheckpointStore store, std::filesystem::path folder, int64_t newest_to_keep);
  /// finish(), with nobody to tell of problems.
  ~CheckpointUploads();
  CheckpointUploads(const CheckpointUploads&) = delete;
  CheckpointUploads& operator=(const CheckpointUploads&) = delete;

  /// The checkpoint of that name, which is whole, is to be copied. best: and marked as the best.
  void add(const std::string& name, bool best);
  /// The same, unless it is there; marked it is all the same.
  void add_missing(const std::string& name, bool best);
  /// One that was added before is the best by now. It is copied, whatever comes after it, and not
  /// marked where it could not be copied.
  void mark_best(const std::string& name);
  /// What went wrong since the last call, with all checkpoints that it kept from the store; nothing
  /// if all went well.
  std::optional<std::string> problem();
  /// Waits until all that was added is copied, or could not be.
  void finish();
  /// The same, for a while; whether that is so.
  bool finish(std::chrono::milliseconds within);
  /// Leaves what is not copied yet, which problem() tells then. Returns soon.
  void give_up();

 private:
  struct Job {
    std::string name;
    std::filesystem::path files;  ///< empty: nothing is to be copied
    bool best = false;
    bool unless_there = false;
  };
  void put(Job job);
  void work();
  void drop_outdated();
  void run(const Job& job);
  void set_lost(const std::string& name, bool lost);

  CheckpointStore store_;
  const std::filesystem::path folder_;
  const int64_t newest_to_keep_;
  int64_t added_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  std::set<std::string> lost_;  ///< added, and not in the store
  bool busy_ = false, ending_ = false;
  std::atomic<bool> leaving_ = false;
  std::optional<std::string> problem_;
  std::jthread thread_;
};

}  // namespace composer

// The checkpoints of a run in a store: PREFIX/RUN_NAME/checkpoints/ep3-ba144/. One counts once its
// manifest.json is there, which is written last and removed first.
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
#include <utility>
#include <vector>

#include "base/remote/object_store.h"
#include "base/remote/remote_path.h"

namespace composer {

class CheckpointStore {
 public:
  /// Opens no connection. outlasts_signal: as of open_store(). UserError where the path is not of
  /// s3://.
  CheckpointStore(const std::string& save_remote, const std::string& run_name,
                  bool outlasts_signal = false);

  /// For messages: the path of a checkpoint, or of their folder.
  std::string text(const std::string& name = "") const;

  /// Of those that count, newest first.
  std::vector<std::string> names();
  /// Copies the files of a checkpoint's local folder. One of that name that is there already does
  /// not count until the new one is whole.
  void upload(const std::filesystem::path& folder, const std::string& name);
  /// Copies a checkpoint's files to a local folder, which is there.
  void download(const std::string& name, const std::filesystem::path& folder);
  /// Deletes all but the newest `count` and the best; a negative count keeps all. What an upload
  /// that broke off left of a checkpoint older than the newest goes too.
  void keep_newest(int64_t count);
  /// Makes it the best one.
  void mark_best(const std::string& name);

 private:
  void remove(const std::string& name);

  RemotePath folder_;
  std::shared_ptr<ObjectStore> store_;
};

/// {144, 3} of "ep3-ba144"; nothing where it is no checkpoint's name.
std::optional<std::pair<long, long>> batch_and_epoch(const std::string& name);

/// Whether the checkpoint "ep3-ba144" is newer than the other; what is no checkpoint's name is
/// older than all.
bool newer_checkpoint(const std::string& name, const std::string& other);

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

  /// The checkpoint of that name, which is whole, is to be copied; where `unless_there`, only if
  /// the store lacks it. best: and marked as the best.
  void add(const std::string& name, bool best, bool unless_there = false);
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

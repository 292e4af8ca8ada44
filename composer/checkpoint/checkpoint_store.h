// The checkpoints of a run in a store: PREFIX/RUN_NAME/checkpoints/ep3-ba144/. A checkpoint counts
// only with its manifest.json, which is written last and removed first.
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
  /// Opens no connection. outlasts_signal: as for open_store(). UserError if the path is not s3://.
  CheckpointStore(const std::string& save_remote, const std::string& run_name,
                  const RemoteOptions& remote = {}, bool outlasts_signal = false);

  /// The path of a checkpoint, or of the checkpoints' folder, for messages.
  std::string text(const std::string& name = "") const;

  /// The names of the checkpoints that count, newest first.
  std::vector<std::string> names();
  /// Uploads the files of a checkpoint's local folder. An existing checkpoint of that name does not
  /// count until the new one is complete.
  void upload(const std::filesystem::path& folder, const std::string& name);
  /// Downloads a checkpoint's files to an existing local folder.
  void download(const std::string& name, const std::filesystem::path& folder);
  /// Deletes all checkpoints but the newest `count` and the best; a negative count keeps all. Also
  /// deletes incomplete uploads older than the newest checkpoint.
  void keep_newest(int64_t count);
  /// Marks the checkpoint as the best.
  void mark_best(const std::string& name);

 private:
  void remove(const std::string& name);

  RemotePath folder_;
  std::shared_ptr<ObjectStore> store_;
};

/// {144, 3} for "ep3-ba144"; nothing if `name` is not a checkpoint's name.
std::optional<std::pair<long, long>> batch_and_epoch(const std::string& name);

/// Whether the checkpoint `name` is newer than `other`. Other names than checkpoints' are older
/// than all.
bool newer_checkpoint(const std::string& name, const std::string& other);

/// Uploads checkpoints in a thread of its own while training goes on. The files of a queued
/// checkpoint are kept even if the checkpoint itself is deleted.
class CheckpointUploads {
 public:
  /// folder: the folder of the local checkpoints. newest_to_keep: checkpoints to keep in the store;
  /// -1: all.
  CheckpointUploads(CheckpointStore store, std::filesystem::path folder, int64_t newest_to_keep);
  /// Calls finish(), and ignores problems.
  ~CheckpointUploads();
  CheckpointUploads(const CheckpointUploads&) = delete;
  CheckpointUploads& operator=(const CheckpointUploads&) = delete;

  /// Queues the upload of a complete checkpoint. best: it is also marked as the best. unless_there:
  /// it is uploaded only if the store lacks it.
  void add(const std::string& name, bool best, bool unless_there = false);
  /// Marks a checkpoint that was added before as the best. It is uploaded even if later ones
  /// replace it. It is not marked if its upload failed.
  void mark_best(const std::string& name);
  /// The problems since the last call, with all checkpoints that were not uploaded; nothing if
  /// there were none.
  std::optional<std::string> problem();
  /// Waits until all uploads have succeeded or failed.
  void finish();
  /// Waits at most `within`; whether all uploads have succeeded or failed.
  bool finish(std::chrono::milliseconds within);
  /// Gives up all unfinished uploads, which problem() then reports. Returns soon.
  void give_up();

 private:
  struct Job {
    std::string name;
    std::filesystem::path files;  ///< empty: only marks the best
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
  std::set<std::string> lost_;  ///< added checkpoints that are not in the store
  bool busy_ = false, ending_ = false;
  std::atomic<bool> leaving_ = false;
  std::optional<std::string> problem_;
  std::jthread thread_;
};

}  // namespace composer

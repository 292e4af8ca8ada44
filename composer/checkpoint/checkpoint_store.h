// The checkpoints of a run in a store: PREFIX/RUN_NAME/checkpoints/ep3-ba144/. One counts once its
// manifest.json is there, which is written last and removed first.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/remote/object_store.h"
#include "base/remote/remote_path.h"

namespace composer {

class CheckpointStore {
 public:
  /// Opens no connection. outlasts_signal: as of open_store(). UserError where the path is not of
  /// s3://.
  CheckpointStore(const std::string& save_remote, const std::string& run_name,
                  const RemoteOptions& remote = {}, bool outlasts_signal = false);

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

/// Whether the checkpoint "ep3-ba144" is newer than the other; what is no checkpoint's name is
/// older than all.
bool newer_checkpoint(const std::string& name, const std::string& other);

}  // namespace composer

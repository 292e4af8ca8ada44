// The folder that a run's checkpoints are in. A new one is written beside its place and renamed
// once it is whole, so that a kill at any instant leaves the one before it whole.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace composer {

class CheckpointStore;

/// A checkpoint while it is made. One process makes and ends its folder, others may write in it.
/// The calls throw RunError or filesystem_error.
class NewCheckpoint {
 public:
  /// Touches no file. folder: that of the checkpoints.
  NewCheckpoint(std::filesystem::path folder, const std::string& name);

  /// Where its files are to be written.
  const std::filesystem::path& path() const { return hidden_; }

  /// Makes the folder (and that of the checkpoints), after clearing away what kills left behind.
  /// False, and there is none, where a whole checkpoint of the name stands and is not to be
  /// replaced.
  bool begin(bool replace);
  /// Gives it its place. The files in it have been flushed to the disk.
  void commit();
  /// Removes it; what another process still writes there fails.
  void abandon() noexcept;

 private:
  std::filesystem::path place_, hidden_;
};

/// Points `folder`/latest to the checkpoint of that name.
void mark_latest_checkpoint(const std::filesystem::path& folder, const std::string& name);
/// Points `folder`/best to the checkpoint of that name.
void mark_best_checkpoint(const std::filesystem::path& folder, const std::string& name);

/// After a kill: takes away what it left half made beside the newest checkpoint, and points
/// `latest` to that.
void tidy_checkpoints(const std::filesystem::path& newest);

/// Deletes all but the newest `count` checkpoints of `folder` and the one that is marked as the
/// best; a negative count keeps all.
void keep_newest_checkpoints(const std::filesystem::path& folder, int64_t count);

/// Whether it is a checkpoint's folder, which holds the state of a run and not weights alone.
bool is_checkpoint(const std::filesystem::path& path);

/// Whether there is a checkpoint in `folder`, whole or not.
bool has_checkpoint(const std::filesystem::path& folder);

/// The newest whole checkpoint in `folder`; nothing when there is none of any kind. Damaged ones
/// that are newer (a file is missing or fails its checksum) are renamed to damaged-<name>, with a
/// warning. UserError, and nothing changed, when a newer one is of another format version or cannot
/// be read, and when none is whole.
std::optional<std::filesystem::path> newest_checkpoint(const std::filesystem::path& folder);

/// The same, where the folder stays as it is: one that a kill has taken away while it was replaced
/// is not seen.
std::optional<std::filesystem::path> find_whole_checkpoint(const std::filesystem::path& folder);

/// newest_checkpoint(folder), or the newest of `store`, copied to `folder`, where that is newer or
/// `folder` has no whole one. Damaged ones of the store are left out, with a warning.
std::optional<std::filesystem::path> newest_checkpoint(const std::filesystem::path& folder,
                                                       CheckpointStore& store);

}  // namespace composer

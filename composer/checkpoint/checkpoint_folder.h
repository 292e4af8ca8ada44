// A checkpoint's manifest, and the folder of a run's checkpoints. A new checkpoint is written under
// another name and renamed once it is complete, so that a kill at any instant leaves the previous
// one complete.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/files/checksum.h"

namespace composer {

/// A file of the checkpoint is missing, cut off or altered. Other problems (another format version,
/// a file that cannot be read) are plain UserErrors.
class DamagedCheckpoint : public UserError {
 public:
  using UserError::UserError;
};

inline constexpr int manifest_version = 1;

/// The error of a manifest.json in the folder `checkpoint` that cannot be understood.
DamagedCheckpoint damaged_manifest(const std::filesystem::path& checkpoint);

/// The newest checkpoint of a run's folder, or of the folder of its checkpoints.
std::optional<std::filesystem::path> latest_below(const std::filesystem::path& folder);

/// The manifest of the checkpoint in the folder `checkpoint`.
nlohmann::ordered_json read_manifest(const std::filesystem::path& checkpoint);

/// Verifies the checksums of the manifest's files whose names begin with `beginning`.
/// DamagedCheckpoint if one differs.
void verify_files(const std::filesystem::path& checkpoint, const nlohmann::ordered_json& manifest,
                  std::string_view beginning = "");

/// The manifest's entry of a file: {"bytes": ..., "crc32": ...}.
nlohmann::ordered_json facts_of(const Checksum& file);

/// The origin of weights. Each member is empty if it is not known.
struct Provenance {
  std::string recipe;                    ///< the resolved recipe, YAML
  std::vector<std::string> network;      ///< nn/network/outline.h
  std::vector<std::string> class_names;  ///< class names by index
  /// The type of the training's device ("cpu", "cuda") and its resolved precision ("amp_bf16");
  /// known for checkpoints only.
  std::string device{}, precision{};
};

/// The origin in a checkpoint's manifest.
Provenance provenance_in(const nlohmann::ordered_json& manifest);

/// The origin of a checkpoint folder, or of a .safetensors file exported from one; empty for other
/// files. Reads no tensors. UserError for a manifest or header that cannot be read.
Provenance read_provenance(const std::filesystem::path& path);

/// The metadata of a .safetensors file with this origin.
std::map<std::string, std::string> to_metadata(const Provenance& provenance);

class CheckpointStore;

/// A checkpoint that is being written. One process calls begin() and commit() or abandon(); others
/// may write files. The functions throw RunError or filesystem_error.
class NewCheckpoint {
 public:
  /// Touches no file. folder: the folder of the checkpoints.
  NewCheckpoint(std::filesystem::path folder, const std::string& name);

  /// The folder to write the files to.
  const std::filesystem::path& path() const { return hidden_; }

  /// Removes what killed processes left, and creates the folder, and that of the checkpoints.
  /// False, without a new folder, if a complete checkpoint of the name exists and `replace` is
  /// false.
  bool begin(bool replace);
  /// Renames the folder to the checkpoint's name. The files must have been flushed to the disk.
  void commit();
  /// Removes the folder; writes of other processes then fail.
  void abandon() noexcept;

 private:
  std::filesystem::path place_, hidden_;
};

/// Points `folder`/latest to the checkpoint of that name.
void mark_latest_checkpoint(const std::filesystem::path& folder, const std::string& name);
/// Points `folder`/best to the checkpoint of that name.
void mark_best_checkpoint(const std::filesystem::path& folder, const std::string& name);

/// Cleans up after a kill: removes incomplete folders beside the newest checkpoint, and points
/// `latest` to it.
void tidy_checkpoints(const std::filesystem::path& newest);

/// Deletes all checkpoints of `folder` but the newest `count` and the best one; a negative count
/// keeps all.
void keep_newest_checkpoints(const std::filesystem::path& folder, int64_t count);

/// Whether the path is the folder of a checkpoint, which has the state of a run, not only weights.
bool is_checkpoint(const std::filesystem::path& path);

/// Whether `folder` has a checkpoint, complete or not.
bool has_checkpoint(const std::filesystem::path& folder);

/// The newest complete checkpoint in `folder`; nothing if there is no checkpoint. Newer damaged
/// ones (a file is missing or fails its checksum) are renamed to damaged-<name>, with a warning.
/// UserError, without changes, if a newer one has another format version or cannot be read, or if
/// all are damaged.
std::optional<std::filesystem::path> newest_checkpoint(const std::filesystem::path& folder);

/// The newest_checkpoint() without changes to the folder. It does not find a checkpoint whose
/// replacement was interrupted by a kill.
std::optional<std::filesystem::path> find_whole_checkpoint(const std::filesystem::path& folder);

/// newest_checkpoint(folder), or the newest of `store`, copied to `folder`, if that is newer or
/// `folder` has no complete one. Damaged checkpoints of the store are skipped, with a warning.
std::optional<std::filesystem::path> newest_checkpoint(const std::filesystem::path& folder,
                                                       CheckpointStore& store);

}  // namespace composer

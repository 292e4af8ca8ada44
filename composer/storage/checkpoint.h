// Checkpoints: a folder ep{epoch}-ba{batch}/ of safetensors files and a manifest that says what
// they hold. Written beside, flushed, then renamed, so that a kill at any instant leaves the one
// before it whole.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "composer/algorithm.h"
#include "composer/time.h"

namespace composer {

/// Parameters and buffers, in a checkpoint's folder.
inline constexpr const char* model_file = "model-00001-of-00001.safetensors";

/// Everything a run needs to go on as if it had never stopped.
struct Checkpoint {
  Timestamp time;
  int64_t evaluated_batch = -1;  ///< the batch after which the last evaluation ended
  uint64_t seed = 0;
  int64_t grad_accum = 1;
  int64_t train_batch_size = 1, batches_per_epoch = 1, samples_per_epoch = 1;
  std::string recipe;
  std::string device;  ///< its type: "cpu", "cuda"; empty: not known, in a manifest that lacks it
  std::vector<std::string> network;         ///< composer/network/outline.h
  std::vector<std::string> class_names;     ///< in order of their index; may be empty
  std::map<std::string, at::Tensor> model;  ///< parameters and buffers by PyTorch's names
  StateDict optimizer;
  std::map<std::string, StateDict>
      parts;  ///< "algorithms.<name>", "callbacks.<name>", "scaler", "train_metrics"
  /// Of a loaded one: what of compute threads, instruction set and build is not as it was, one line
  /// each. A run goes on from it, but not bit by bit as it would have there.
  std::vector<std::string> differences;
};

/// "ep3-ba144".
std::string checkpoint_name(const Timestamp& time);

/// Writes `checkpoint` as a new folder in `folder` (made if absent) and points `folder`/latest to
/// it. A whole checkpoint of that name is left as it is, unless it is to be replaced. Returns its
/// path. RunError when it cannot be written; then nothing of it is left.
std::filesystem::path save_checkpoint(const std::filesystem::path& folder,
                                      const Checkpoint& checkpoint, bool replace = false);

/// Points `folder`/best to the checkpoint of that name.
void mark_best_checkpoint(const std::filesystem::path& folder, const std::string& name);

/// Deletes all but the newest `count` checkpoints of `folder` and the one that is marked as the
/// best; a negative count keeps all.
void keep_newest_checkpoints(const std::filesystem::path& folder, int64_t count);

/// UserError naming the file when something is missing, of another format version, or fails its
/// checksum.
Checkpoint load_checkpoint(const std::filesystem::path& path);

/// The newest whole checkpoint in `folder`; nothing when there is none of any kind. Damaged ones
/// that are newer (a file is missing or fails its checksum) are renamed to damaged-<name>, with a
/// warning. UserError, and nothing changed, when a newer one is of another format version or cannot
/// be read, and when none is whole.
std::optional<std::filesystem::path> newest_checkpoint(const std::filesystem::path& folder);

/// The manifest and the tensors (name, shape) as text for people, for `composer
/// checkpoint info`.
std::string describe_checkpoint(const std::filesystem::path& path);

}  // namespace composer

// A checkpoint on the disk.
#pragma once

#include "base/error.h"
#include "composer/checkpoint/checkpoint_writer.h"

namespace composer {

/// Writes `checkpoint` as a new folder in `folder` (made if absent) and points `folder`/latest to
/// it. A whole checkpoint of that name is left as it is. Returns its path. RunError when it cannot
/// be written, or its weights are not finite.
inline std::filesystem::path save_checkpoint(const std::filesystem::path& folder,
                                             const Checkpoint& checkpoint) {
  CheckpointWriter writer(folder, {}, {.behind = false});
  writer.start(checkpoint, {});
  if (const auto outcome = writer.wait(); !outcome->problem.empty())
    throw RunError(outcome->problem);
  return folder / checkpoint_name(checkpoint.time);
}

}  // namespace composer

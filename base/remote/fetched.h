// Weights and checkpoints of stores, as files of this machine.
#pragma once

#include <filesystem>
#include <string>

#include "base/remote/remote_options.h"

namespace composer {

/// A local path as it is, a link to a folder beside it (checkpoints/latest) followed. Of a remote
/// one (a file, or the folder of a checkpoint or of what `composer export` wrote) a whole copy in
/// the cache folder, which is made now unless this version is there; those that were not asked for
/// longest leave, beyond eight. Any thread and process may call it. UserError where there is no
/// such object, RunError where it cannot be had.
std::filesystem::path fetched(const std::string& path, const RemoteOptions& options = {});

}  // namespace composer

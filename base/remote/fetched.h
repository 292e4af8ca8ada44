// Local copies of weights and checkpoints in stores.
#pragma once

#include <filesystem>
#include <string>

#include "base/remote/remote_options.h"

namespace composer {

/// The local path of a file or folder. A local `path` is returned as it is, but a link to a folder
/// beside it (checkpoints/latest) is followed. For a remote `path` (a file, the folder of a
/// checkpoint, or a folder that `composer export` wrote) the result is a whole copy in the cache
/// folder, made now unless this version is there. Beyond eight copies the longest unused ones are
/// removed. Any thread and process may call it. UserError when there is no such object, RunError
/// when it cannot be read.
std::filesystem::path fetched(const std::string& path, const RemoteOptions& options = {});

}  // namespace composer

// The run folder that a user names.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace composer {

/// Whether the folder is that of a run that has begun.
bool is_run(const std::filesystem::path& folder);

/// The names of the runs in `folder`, sorted.
std::vector<std::string> runs_in(const std::filesystem::path& folder);

/// UserError when `folder` is no folder, with the nearest name of a run, or when it is a folder of
/// runs.
void check_run_folder(const std::string& folder);

}  // namespace composer

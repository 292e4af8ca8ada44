// The run that a command is about, as a user names it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace composer {

/// Whether a run has begun there.
bool is_run(const std::filesystem::path& folder);

/// The names of the runs in `folder`, sorted.
std::vector<std::string> runs_in(const std::filesystem::path& folder);

/// UserError where `folder` is no folder, naming one that may be meant, or has runs in it.
void check_run_folder(const std::string& folder);

}  // namespace composer

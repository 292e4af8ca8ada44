// The run that a command is about, as a user names it.
#pragma once

#include <string>

namespace composer {

/// UserError where `folder` is no folder, naming one that may be meant, or has runs in it.
void check_run_folder(const std::string& folder);

}  // namespace composer

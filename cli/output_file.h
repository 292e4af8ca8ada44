// The one file that a command is to write.
#pragma once

#include <string>

namespace composer {

/// UserError, naming --output, where it is a folder, its folder is missing or cannot be written to,
/// or it is there already and `overwrite` is not set.
void check_output_file(const std::string& output, bool overwrite);

}  // namespace composer

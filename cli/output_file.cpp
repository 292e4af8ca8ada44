#include "cli/output_file.h"

#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <filesystem>

#include "base/error.h"

namespace composer {

void check_output_file(const std::string& output, bool overwrite) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (output.empty()) throw UserError("--output: is empty; name the file to write");
  if (fs::path(output).filename().string().size() > NAME_MAX)
    throw UserError("--output: its name is longer than a file's may be (" +
                    std::to_string(NAME_MAX) + " bytes)");
  if (fs::is_directory(output, error)) throw UserError("--output: '" + output + "' is a folder");
  if (fs::exists(fs::symlink_status(output, error)) && !overwrite)
    throw UserError("--output: '" + output + "' exists; --overwrite replaces it");
  const auto folder = fs::absolute(output, error).parent_path();
  if (!fs::is_directory(folder, error))
    throw UserError("--output: there is no folder '" + folder.string() + "'");
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    throw UserError("--output: '" + folder.string() +
                    "' cannot be written to: " + std::strerror(errno));
}

}  // namespace composer

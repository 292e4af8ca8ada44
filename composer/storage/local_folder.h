// The path of a folder that is to be written in.
#pragma once

#include <cstdlib>
#include <string>

#include "composer/logging/url_secrets.h"
#include "composer/remote/remote_path.h"

namespace composer {

/// What is wrong with it, for people, before anything is made; empty if nothing. Paths of stores
/// and web servers, and ~ that no shell has replaced, would else be names of folders here.
inline std::string local_folder_problem(const std::string& folder) {
  if (is_remote(folder))
    return "must be a folder of this machine, not '" + address_without_secrets(folder) + "'";
  if (folder != "~" && !folder.starts_with("~/")) return "";
  const char* const home = std::getenv("HOME");
  return "'" + folder + "': only a shell puts the home folder in the place of ~; give " +
         (home == nullptr ? std::string("its path") : "'" + (home + folder.substr(1)) + "'");
}

}  // namespace composer

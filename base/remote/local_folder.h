// The path of a folder that is to be written in.
#pragma once

#include <cstdlib>
#include <string>

#include "base/remote/remote_path.h"
#include "base/url_secrets.h"

namespace composer {

/// What is wrong with it, for people, before anything is made; empty if nothing. Paths of stores
/// and web servers, ~ and $NAME that no shell has replaced, would else be names of folders here.
inline std::string local_folder_problem(const std::string& folder) {
  if (is_remote(folder))
    return "must be a folder of this machine, not '" + address_without_secrets(folder) + "'";
  if (const size_t at = folder.starts_with('$') ? 0 : folder.find("/$"); at != std::string::npos) {
    const size_t begin = folder.find('$', at);
    return "'" + folder + "': only a shell puts a variable's value in the place of " +
           folder.substr(begin, folder.find('/', begin) - begin) + "; give the path";
  }
  if (folder != "~" && !folder.starts_with("~/")) return "";
  const char* const home = std::getenv("HOME");
  return "'" + folder + "': only a shell puts the home folder in the place of ~; give " +
         (home == nullptr ? std::string("its path") : "'" + (home + folder.substr(1)) + "'");
}

}  // namespace composer

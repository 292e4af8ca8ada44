// Remote paths as they are opened: with what messages and files must not hold.
#pragma once

#include <algorithm>
#include <string>

#include "base/remote/remote_path.h"

namespace composer {

/// The path with its userinfo and query, which may be secrets: RemotePath(address_of(path)) is the
/// same path. For opening it, never for a message or a file.
inline std::string address_of(const RemotePath& path) {
  using Scheme = RemotePath::Scheme;
  const char* const scheme = path.scheme() == Scheme::s3      ? "s3://"
                             : path.scheme() == Scheme::https ? "https://"
                                                              : "http://";
  return scheme + (path.userinfo().empty() ? "" : path.userinfo() + "@") + path.host() + "/" +
         path.key();
}

/// The address of `name` as a user writes it behind that of a folder: "%20" in it stays, and a
/// query of the folder goes to the end unless the name has one of its own.
inline std::string address_below(const std::string& folder, const std::string& name) {
  const bool has_query = !folder.starts_with("s3:");
  const size_t end = has_query ? std::min(folder.find('?'), folder.size()) : folder.size();
  const std::string query = has_query && name.find('?') != name.npos ? "" : folder.substr(end);
  const std::string path = folder.substr(0, end);
  return path + (path.ends_with('/') ? "" : "/") + name + query;
}

}  // namespace composer

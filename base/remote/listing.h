// The files of a remote folder, from the store's list or from a manifest.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/remote/cache_folder.h"
#include "base/remote/object_store.h"

namespace composer {

struct ListedFile {
  std::string name;  ///< relative to the folder, with '/' between
  ObjectInfo object;
};

struct Listing {
  std::string folder;             ///< the folder's path, for messages
  std::vector<ListedFile> files;  ///< sorted by name
};

/// Whether the path is that of a manifest: a text file (.txt) with one path per line, relative to
/// its own folder. Empty lines, and lines that begin with '#', do not count. Requests for its files
/// have the manifest's query, without the parts that concern one object only: signatures, versions.
bool is_manifest(const RemotePath& path);
/// The paths in a manifest's text, in order. UserError names the lines of paths that are not below
/// its folder.
std::vector<std::string> names_in_manifest(const std::string& text, const RemotePath& path);

/// The files below the path, or the files of the manifest. Many threads list parts of the folder,
/// or look up the manifest's files. A listing that a process of this machine made within the last
/// minute is reused. Throws UserError when the folder or a file does not exist, or the cache's
/// folder cannot be used.
Listing list_files(const std::shared_ptr<ObjectStore>& store, const RemotePath& path,
                   const CacheFolder& cache);
/// The files at these paths of one store, in order. UserError names paths that are missing or lie
/// in another store.
Listing list_named(ObjectStore& store, const std::vector<std::string>& paths);
/// list_files() with the store of the path and the cache of the options.
Listing list_files(const RemotePath& path, const RemoteOptions& options = {});

}  // namespace composer

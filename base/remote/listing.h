// The files of a remote folder: by the store's list, or by a manifest.
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
  std::string folder;             ///< its path, for messages
  std::vector<ListedFile> files;  ///< sorted by name
};

/// Whether the path is that of a manifest: a text file (.txt) with one path a line, relative to its
/// own folder. Empty lines, and those that begin with '#', do not count. Its files are asked for
/// with the query that it has, but for what is about it alone: signatures of one object, versions.
bool is_manifest(const RemotePath& path);
/// The paths in its text, in their order. Throws UserError that names the lines of those that do
/// not lie below its folder.
std::vector<std::string> names_in_manifest(const std::string& text, const RemotePath& path);

/// The files below the path, or those of the manifest; folders and their parts are listed, and
/// files of a manifest asked for, by many threads at once. What a process of this machine found out
/// within the last minute is not asked again. Throws UserError where there is no such folder or
/// file, and where the cache's folder cannot be used.
Listing list_files(const std::shared_ptr<ObjectStore>& store, const RemotePath& path,
                   const CacheFolder& cache);
/// These paths of the store, in their order. Throws UserError that names those that are missing, or
/// lie elsewhere.
Listing list_named(ObjectStore& store, const std::vector<std::string>& paths);
/// With the store of the path, and the folder of the options.
Listing list_files(const RemotePath& path, const RemoteOptions& options = {});

}  // namespace composer

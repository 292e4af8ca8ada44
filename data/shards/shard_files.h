// The files of a set of shards.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/shards/part_file.h"

namespace composer {

/// Files of one folder, or of several. Root and names of remote files contain no secrets: they
/// appear in messages and in kept tables.
struct ShardFiles {
  std::string root;                      ///< a folder with its '/', or ""; may be remote
  std::vector<std::string> names;        ///< below the root, or absolute
  std::vector<std::string> versions{};   ///< versions of remote files, as RemoteBytes::version
  std::vector<std::string> addresses{};  ///< addresses of remote files, with their signatures
  /// For remote files: how a compressed file is unpacked. Empty: no file is compressed.
  std::vector<std::optional<PackedFile>> packed{};
  RemoteOptions remote{};  ///< how their store is reached

  /// The path or address to open the file by.
  std::string path(size_t i) const;
  /// The path of the file for messages.
  std::string shown(size_t i) const;
};

/// Expands braces: "a-{000..146}.tar" gives a-000.tar to a-146.tar, "{x,y}.tar" gives x.tar and
/// y.tar; "::" separates several patterns. Throws UserError for braces with neither a range nor a
/// list, and for more than a million names.
std::vector<std::string> expanded_names(const std::string& text);

/// The files that `text` (expanded_names) names, in order. Relative names lie below `folder`, or
/// where that is empty below the current folder. Both may be remote. Throws UserError, which names
/// `key`, listing missing files.
ShardFiles named_shards(const std::string& text, const std::string& folder, const std::string& key,
                        const RemoteOptions& remote = {});

/// Looks up all files in their store, many at once, and sets their versions. Throws UserError,
/// which names `key`, listing missing files.
void find_remote(ShardFiles& files, const std::string& key);

/// The path or address of `name` below a folder, which may be remote. name: plain text, with '/'.
std::string path_below(const std::string& folder, const std::string& name);

/// The files of the folder with this ending, sorted by name, without hidden files; may be empty.
/// The folder may be remote.
ShardFiles shards_in(const std::filesystem::path& folder, const std::string& ending,
                     const RemoteOptions& remote = {});

/// The end of a message about a local folder without tar files: what to do with the compressed tar
/// files that it has; else empty.
std::string compressed_tars_hint(const std::filesystem::path& folder);

/// The path of the kept table of the files. about: other things that the table depends on.
std::filesystem::path shard_table_file(const ShardFiles& files, const std::string& about,
                                       const std::string& index_dir);

/// Throws the problems, unless there are none, as a UserError with at most ten of them. things:
/// what the others are called.
void throw_problems(std::vector<std::string> problems, const std::string& things);

/// The path itself where it is absolute or remote, else the path below root, which ends with '/'.
std::string path_in(const std::string& root, const std::string& path);

}  // namespace composer

// Which files a set of shards is made of.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/shards/file_hashes.h"

namespace composer {

/// Files that lie in one folder, or anywhere. Root and names of remote ones have no secrets: they
/// stand in messages and in tables that are kept.
struct ShardFiles {
  std::string root;                      ///< a folder with its '/', or ""; may be remote
  std::vector<std::string> names;        ///< below the root, or absolute
  std::vector<std::string> versions{};   ///< of remote files, as RemoteBytes::version
  std::vector<std::string> addresses{};  ///< of remote files, with what it needs to open them
  /// Of remote files: those that are compressed, and read as what they hold. Empty: none are.
  std::vector<std::optional<PackedFile>> packed{};
  RemoteOptions remote{};  ///< how their store is reached

  /// To open it by.
  std::string path(size_t i) const;
  /// The path for messages.
  std::string shown(size_t i) const;
};

/// "a-{000..146}.tar" is a-000.tar to a-146.tar, "{x,y}.tar" x.tar and y.tar; "::" stands between
/// several of these. Throws UserError for braces that make no sense, and for more than a million.
std::vector<std::string> expanded_names(const std::string& text);

/// The files that `text` (expanded_names) names, in their order; those with relative names lie
/// below `folder`, or where that is empty below the current one. Both may be remote. Throws
/// UserError, which names `key`, listing what is missing.
ShardFiles named_shards(const std::string& text, const std::string& folder, const std::string& key,
                        const RemoteOptions& remote = {});

/// Asks a store for all files, many at once, and sets their version. Throws UserError, which names
/// `key`, listing what is missing.
void find_remote(ShardFiles& files, const std::string& key);

/// The path, or address, of `name` in a folder, which may be remote. name: plain text, with '/'.
std::string path_below(const std::string& folder, const std::string& name);

/// All files of the folder, which may be one of s3://, with this ending, by name, but for hidden
/// ones. May be none.
ShardFiles shards_in(const std::filesystem::path& folder, const std::string& ending,
                     const RemoteOptions& remote = {});

/// For a message about a local folder without tar files: where it has compressed ones, what to do
/// about them; else empty.
std::string compressed_tars_hint(const std::filesystem::path& folder);

/// Where a table of the files is kept. about: what else the table depends on.
std::filesystem::path shard_table_file(const ShardFiles& files, const std::string& about,
                                       const std::string& index_dir);

}  // namespace composer

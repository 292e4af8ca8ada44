// MosaicML's shards (MDS): an index.json, and files of samples made of columns.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "data/shards/shard_files.h"

namespace composer {

/// Files that are missing, cannot be read or are damaged: path and reason.
using WrongFiles = std::vector<std::pair<std::string, std::string>>;

struct MdsOptions {
  std::string image = "auto";  ///< a column; auto: the one of images
  std::string label = "auto";  ///< a column; auto: label, else class, else the one of integers
  /// Columns of numbers or of arrays of them that are read in place of the label; none: the label.
  std::vector<std::string> targets{};
  /// Where compressed shards are unpacked to, each once; a folder of the set's own is made there.
  std::filesystem::path unpack_to{};
  /// Where not null: gets the shards that are missing, cut off or damaged, which are left out; they
  /// are no errors. Those that were unpacked before are not compared with their hashes again.
  WrongFiles* unreadable = nullptr;
  RemoteOptions remote{};  ///< how a remote folder's store is reached
};

/// Whether an index.json, which may be remote, is one of MDS shards, as far as its keys tell. One
/// that is no JSON may be a damaged one, and counts. Throws UserError where it cannot be read.
bool is_mds_index(const std::string& file);

/// The files that a table depends on: the index, and of a remote folder its shards, as
/// find_remote() found them, compressed where the store has them only so. Throws UserError naming
/// what is missing or damaged. without_missing: shards that the store does not have are left out,
/// which mds_table() tells of.
ShardFiles mds_files(const std::string& folder, const RemoteOptions& remote,
                     bool without_missing = false);

/// The samples of the shards that folder/index.json lists, in order, as parts of the raw files.
/// What is unpacked is compared with the hashes that the index has of it, as are shards that were
/// unpacked before: those that differ are unpacked again.
/// Throws UserError naming what is missing, damaged, or of a kind that is not read: compressed by
/// anything but zstd, images, classes or targets in other columns than jpeg, png, pil, bytes;
/// integers; numbers and ndarray. Those of a store, where folder is remote, are read whole, and
/// compressed ones unpacked into the machine's cache. No pickle is ever read.
std::vector<uint8_t> mds_table(const std::filesystem::path& folder, const MdsOptions& options);

/// Names of the first shard's columns that targets may name. Throws UserError as mds_files().
std::vector<std::string> mds_number_columns(const std::string& folder, const RemoteOptions& remote);

/// The files of the shards, packed, raw and unpacked (below unpack_to) as far as they are there,
/// that cannot be read, or whose bytes are not those that the index has hashes of. Reads all that
/// have a hash to check. folder: may be remote; of compressed objects it is checked what they hold,
/// for they themselves were when they were unpacked. The log names algorithms that cannot
/// be checked. Throws UserError for an index that cannot be read, RemoteError or UserError where a
/// store does not give a file.
WrongFiles wrong_mds_hashes(const std::string& folder, const std::filesystem::path& unpack_to,
                            const RemoteOptions& remote = {});

}  // namespace composer

// MosaicML's shards (MDS): an index.json, and files of samples made of columns.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "data/shards/shard_files.h"

namespace composer {

/// Paths of files that are missing, unreadable or damaged, with the reasons.
using WrongFiles = std::vector<std::pair<std::string, std::string>>;

struct MdsOptions {
  std::string image = "auto";  ///< a column; auto: the one of images
  std::string label = "auto";  ///< a column; auto: label, else class, else the one of integers
  /// Columns of numbers or arrays to read in place of the label; empty: the label.
  std::vector<std::string> targets{};
  /// Folder that compressed shards are unpacked to, each once.
  std::filesystem::path unpack_to{};
  /// Where not null: gets the shards that are missing, cut off or damaged, which are skipped
  /// instead of being errors. The hashes of shards that were unpacked before are not checked again.
  WrongFiles* unreadable = nullptr;
  RemoteOptions remote{};  ///< how a remote folder's store is reached
};

/// Whether an index.json, which may be remote, is one of MDS shards, by its keys. A file that is no
/// JSON counts: it may be damaged. Throws UserError if the file cannot be read.
bool is_mds_index(const std::string& file, const RemoteOptions& remote = {});

/// The files that a table depends on: the index and, for a remote folder, the shards with their
/// versions; a shard is compressed where the store has no raw one. Throws UserError naming files
/// that are missing or damaged. without_missing: missing shards are left out; mds_table() reports
/// them.
ShardFiles mds_files(const std::string& folder, const RemoteOptions& remote,
                     bool without_missing = false);

/// The table of the samples of the shards that folder/index.json lists, in order, as parts of the
/// raw files. Unpacked shards, also those unpacked before, have to match their hashes in the index;
/// a shard that was unpacked before and does not match is unpacked again. Shards of a remote folder
/// are read whole, and compressed ones are unpacked into the machine's cache. Throws UserError
/// naming files that are missing, damaged or unsupported: compressed by anything but zstd; images
/// in columns other than jpeg, png, pil, bytes; classes in columns other than integers; targets in
/// columns other than numbers and ndarray. No pickle is ever read.
std::vector<uint8_t> mds_table(const std::filesystem::path& folder, const MdsOptions& options);

/// Names of the first shard's columns that targets may name. Throws UserError as mds_files() does.
std::vector<std::string> mds_number_columns(const std::string& folder, const RemoteOptions& remote);

/// The existing files of the shards (packed, raw, and unpacked below unpack_to) that cannot be
/// read, or whose hashes differ from those in the index. Reads all files with a hash to check.
/// folder: may be remote; for compressed objects the unpacked bytes are checked, as unpacking
/// checks the packed ones. The log names hash algorithms that are not supported. Throws UserError
/// for an index that cannot be read, RemoteError or UserError if a store does not give a file.
WrongFiles wrong_mds_hashes(const std::string& folder, const std::filesystem::path& unpack_to,
                            const RemoteOptions& remote = {});

}  // namespace composer

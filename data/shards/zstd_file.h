// Files that are compressed by zstd.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/remote/remote_bytes.h"
#include "data/shards/shard_files.h"

namespace composer {

/// Unpacks `from` to `to`, by way of a temporary file. Throws DamagedFile naming `from` if it is
/// damaged, or its content does not match `bytes` and `hashes`; UserError if it cannot be read;
/// RunError if `to` cannot be written.
void unpack_zstd(const std::filesystem::path& from, const std::filesystem::path& to, uint64_t bytes,
                 const FileHashes& hashes);

/// The content of a compressed object, as one block. Fetching any byte reads the whole object, in
/// parallel ranges, and unpacks it, with memory for both. A fetch throws DamagedFile naming the
/// object if it is damaged or does not match `file`; RunError if the thread is to leave
/// (LeaveWhen).
RemoteBytes unpacked_bytes(RemoteBytes object, PackedFile file);

}  // namespace composer

// Files that are compressed by zstd.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/remote/remote_bytes.h"
#include "data/shards/file_hashes.h"

namespace composer {

/// Writes what `from` holds to `to`, beside it first. Throws DamagedFile naming `from` where it is
/// damaged, does not hold `bytes` bytes or those that these are hashes of, UserError where it
/// cannot be read, RunError where `to` cannot be written.
void unpack_zstd(const std::filesystem::path& from, const std::filesystem::path& to, uint64_t bytes,
                 const FileHashes& hashes);

/// What a compressed object holds, as one block. For any byte of it the object is read whole, in
/// ranges side by side, and unpacked, which takes memory for both. That throws DamagedFile naming
/// the object where it is damaged, or it or what it holds is not what `file` says; RunError where
/// the thread is to leave (LeaveWhen).
RemoteBytes unpacked_bytes(RemoteBytes object, PackedFile file);

}  // namespace composer

// Files that are compressed by zstd.
#pragma once

#include <cstdint>
#include <filesystem>

#include "data/shards/file_hashes.h"

namespace composer {

/// Writes what `from` holds to `to`, beside it first. Throws UserError naming `from` where it is
/// damaged, does not hold `bytes` bytes or those that these are hashes of, RunError where `to`
/// cannot be written.
void unpack_zstd(const std::filesystem::path& from, const std::filesystem::path& to, uint64_t bytes,
                 const FileHashes& hashes);

}  // namespace composer

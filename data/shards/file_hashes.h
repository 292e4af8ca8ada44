// Files that are compared with the hashes that their index has of them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/remote/remote_options.h"
#include "data/files/digest.h"

namespace composer {

/// A file is missing, or its bytes are not those that its index says.
class DamagedFile : public WrongBytes {
 public:
  using WrongBytes::WrongBytes;
};

/// Of a file's bytes, in hexadecimal, by the names that Python's hashlib has for algorithms.
using FileHashes = std::map<std::string, std::string>;

/// What an index says of a file that is compressed by zstd.
struct PackedFile {
  FileHashes packed_hashes{};  ///< of the file itself
  uint64_t bytes = 0;          ///< of what it holds
  FileHashes hashes{};         ///< likewise
};

/// Hashes by algorithms that Digest does not know (xxh3_64) are passed over.
class HashCheck {
 public:
  explicit HashCheck(const FileHashes& hashes);

  /// Whether there is nothing to compare.
  bool empty() const { return expected_.empty(); }
  void update(std::span<const uint8_t> bytes);
  /// Ends the file: "its sha1 is not the one in the index", or empty where nothing is wrong.
  std::string problem();

 private:
  struct Expected {
    std::string algorithm, hash;
    Digest digest;
  };
  std::vector<Expected> expected_;
};

/// What HashCheck finds of a whole file, local or remote, which is not read where there is nothing
/// to check; packed: of a remote one that is compressed, whose hashes are of what it holds. Throws
/// UserError naming a file that cannot be read, RemoteError and DamagedFile as PartFile::read.
std::string hash_problem(const std::string& file, const FileHashes& hashes,
                         const RemoteOptions& remote = {},
                         const std::optional<PackedFile>& packed = std::nullopt);

}  // namespace composer

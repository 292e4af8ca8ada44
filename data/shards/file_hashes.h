// The check of files against the hashes in their index.
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

/// A file is missing, or its bytes do not match its index.
class DamagedFile : public WrongBytes {
 public:
  using WrongBytes::WrongBytes;
};

/// Hashes of a file's bytes, in hexadecimal, by the names of algorithms in Python's hashlib.
using FileHashes = std::map<std::string, std::string>;

/// The index entry of a file that is compressed by zstd.
struct PackedFile {
  FileHashes packed_hashes{};  ///< of the compressed file
  uint64_t bytes = 0;          ///< unpacked size
  FileHashes hashes{};         ///< of the unpacked bytes
};

/// Ignores hashes by algorithms that Digest does not know (xxh3_64).
class HashCheck {
 public:
  explicit HashCheck(const FileHashes& hashes);

  /// Whether there is no hash to check.
  bool empty() const { return expected_.empty(); }
  void update(std::span<const uint8_t> bytes);
  /// The result for the whole file: "its sha1 is not the one in the index", or empty for a match.
  std::string problem();

 private:
  struct Expected {
    std::string algorithm, hash;
    Digest digest;
  };
  std::vector<Expected> expected_;
};

/// HashCheck::problem() of a whole file, local or remote, which is read only where there is a hash
/// to check. packed: set for a compressed remote file, whose hashes are of the unpacked bytes.
/// Throws UserError naming a file that cannot be read, RemoteError and DamagedFile as
/// PartFile::read() does.
std::string hash_problem(const std::string& file, const FileHashes& hashes,
                         const RemoteOptions& remote = {},
                         const std::optional<PackedFile>& packed = std::nullopt);

}  // namespace composer

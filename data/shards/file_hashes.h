// Files that are compared with the hashes that their index has of them.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "data/digest.h"

namespace composer {

/// Of a file's bytes, in hexadecimal, by the names that Python's hashlib has for algorithms.
using FileHashes = std::map<std::string, std::string>;

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
/// to check. Throws UserError naming a file that cannot be read, RemoteError as PartFile::read.
std::string hash_problem(const std::string& file, const FileHashes& hashes);

}  // namespace composer

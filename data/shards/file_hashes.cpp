#include "data/shards/file_hashes.h"

#include <algorithm>

#include "base/text.h"
#include "data/shards/part_file.h"

namespace composer {

HashCheck::HashCheck(const FileHashes& hashes) {
  for (const auto& [algorithm, hash] : hashes)
    if (Digest::knows(algorithm))
      expected_.push_back({algorithm, lower_case(hash), Digest(algorithm)});
}

void HashCheck::update(std::span<const uint8_t> bytes) {
  for (auto& one : expected_) one.digest.update(bytes);
}

std::string HashCheck::problem() {
  std::string wrong;
  for (auto& one : expected_)
    if (wrong.empty() && one.digest.hex() != one.hash)
      wrong = "its " + one.algorithm + " is not the one in the index";
  return wrong;
}

std::string hash_problem(const std::string& file, const FileHashes& hashes,
                         const RemoteOptions& remote, const std::optional<PackedFile>& packed) {
  constexpr uint64_t kPiece = 8 << 20;
  HashCheck check(hashes);
  if (check.empty()) return {};
  const auto update = [&](PartReader& reader) {
    for (uint64_t at = 0; at < reader.bytes(); at += kPiece)
      check.update(reader.at(at, std::min(kPiece, reader.bytes() - at)));
    return true;
  };
  read_parts(file, update, remote, packed);
  return check.problem();
}

}  // namespace composer

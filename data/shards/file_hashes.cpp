#include "data/shards/file_hashes.h"

#include "composer/storage/mapped_file.h"
#include "composer/text.h"

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

std::string hash_problem(const std::filesystem::path& file, const FileHashes& hashes) {
  HashCheck check(hashes);
  if (hashes.empty()) return {};
  MappedFile(file).use_all([&](std::span<const uint8_t> bytes) {
    check.update(bytes);
    return true;
  });
  return check.problem();
}

}  // namespace composer

// For the tests of crop indices: indices that their keys tell.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "data/index/index_file.h"

namespace composer::test {

inline std::vector<uint8_t> bytes_for(uint64_t key) {
  std::vector<uint8_t> bytes(key % 7 * 5);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(key * 31 + i);
  return bytes;
}

inline IndexEntries entries_for(const std::vector<uint64_t>& keys, const FileStamp& stamp = {}) {
  IndexEntries entries;
  for (const uint64_t key : keys) {
    entries[key] = {stamp, std::make_shared<const std::vector<uint8_t>>(bytes_for(key))};
  }
  return entries;
}

/// Works for an IndexTable and an IndexStore.
bool has(const auto& indices, uint64_t key, const FileStamp& stamp = {}) {
  const auto found = indices.find(key, stamp);
  return found && *found == bytes_for(key);
}

constexpr FileStamp kSource{1000, 2000};

}  // namespace composer::test

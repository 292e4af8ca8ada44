// Which blocks of cached objects leave the disk when others need the room.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "base/remote/cached_object.h"

namespace composer {

/// Of each block of an object: how many samples are read before it is needed.
using BlockNeeds = std::vector<uint32_t>;
constexpr uint32_t kUnneeded = std::numeric_limits<uint32_t>::max();

/// Of an object that no order tells of.
BlockNeeds no_needs(const CachedObject& object);
/// The blocks with these bytes are needed after so many samples, unless they are before.
void note_need(const CachedObject& object, uint64_t begin, uint64_t end, uint32_t after_samples,
               BlockNeeds& needs);

using UseBlocks = std::function<void(const CachedObject::Blocks& blocks)>;

/// An object whose blocks may leave.
struct Evictable {
  CachedObject* object;
  BlockNeeds needs;
  /// Calls `use` with the first of the blocks that nobody has claimed, which are claimed
  /// meanwhile; returns how many they are.
  std::function<uint64_t(const CachedObject::Blocks& wanted, const UseBlocks& use)> claimed;
};

/// Takes away blocks of so many bytes together, those needed last first, none of them needed after
/// `least` samples or before. Blocks that others keep from being dropped are passed over. Returns
/// how many bytes they had.
uint64_t evict_blocks(std::span<const Evictable> objects, uint64_t bytes, uint32_t least);

/// The same of an object that nobody of this process uses, by no order.
uint64_t evict_any(const std::filesystem::path& stem, uint64_t bytes);

}  // namespace composer

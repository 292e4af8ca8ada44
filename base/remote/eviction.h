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

/// For each block of an object: how many samples are read before the block is needed.
using BlockNeeds = std::vector<uint32_t>;
constexpr uint32_t kUnneeded = std::numeric_limits<uint32_t>::max();

/// The needs of an object that no order of samples uses: all kUnneeded.
BlockNeeds no_needs(const CachedObject& object);
/// Notes that the bytes [begin, end) are needed after `after_samples` samples. An earlier need
/// stays.
void note_need(const CachedObject& object, uint64_t begin, uint64_t end, uint32_t after_samples,
               BlockNeeds& needs);

using UseBlocks = std::function<void(const CachedObject::Blocks& blocks)>;

/// An object whose blocks may leave.
struct Evictable {
  CachedObject* object;
  BlockNeeds needs;
  /// Claims the first of the wanted blocks that nobody else has claimed, calls `use` with them, and
  /// releases them. Returns their number.
  std::function<uint64_t(const CachedObject::Blocks& wanted, const UseBlocks& use)> claimed;
};

/// Drops blocks of at least `bytes` bytes, or all that it may. It drops first what is needed last,
/// and nothing that is needed within `least` samples. Pinned blocks stay. Returns the bytes
/// dropped.
uint64_t evict_blocks(std::span<const Evictable> objects, uint64_t bytes, uint32_t least);

/// Drops blocks of an object that no loader of this process uses, in scattered order.
uint64_t evict_any(const std::filesystem::path& stem, uint64_t bytes);

}  // namespace composer

#include "base/remote/eviction.h"

#include <algorithm>
#include <tuple>

namespace composer {
namespace {

using Blocks = CachedObject::Blocks;

struct NeededBlock {
  uint32_t need, object;
  uint64_t number;
};

/// Those that are there and needed after `least`, what is needed last first.
std::vector<NeededBlock> needed_last(std::span<const Evictable> objects, uint32_t least) {
  std::vector<NeededBlock> blocks;
  for (uint32_t i = 0; i < objects.size(); ++i) {
    const auto& [object, needs, claimed] = objects[i];
    if (!object->can_drop()) continue;
    for (uint64_t block = 0; block < needs.size(); ++block)
      if (BlockTable::is_there(object->table().entry(block)) && needs[block] > least)
        blocks.push_back({needs[block], i, block});
  }
  std::sort(blocks.begin(), blocks.end(), [](const NeededBlock& a, const NeededBlock& b) {
    return std::tie(b.need, a.object, a.number) < std::tie(a.need, b.object, b.number);
  });
  return blocks;
}

/// Returns the bytes of what was dropped.
uint64_t drop(const Evictable& from, const std::vector<uint64_t>& blocks) {
  CachedObject& object = *from.object;
  uint64_t bytes = 0;
  for (size_t i = 0; i < blocks.size();) {
    Blocks run{blocks[i], blocks[i] + 1};
    for (++i; i < blocks.size() && blocks[i] == run.end; ++i) ++run.end;
    while (run.count() > 0) {
      const uint64_t done = from.claimed(run, [&](const Blocks& part) {
        object.drop(part);
        bytes += object.bounds().end(part.end - 1) - object.bounds().begin(part.begin);
      });
      run.begin += std::max<uint64_t>(done, 1);
    }
  }
  return bytes;
}

}  // namespace

BlockNeeds no_needs(const CachedObject& object) {
  return BlockNeeds(object.bounds().count(), kUnneeded);
}

void note_need(const CachedObject& object, uint64_t begin, uint64_t end, uint32_t after_samples,
               BlockNeeds& needs) {
  if (begin >= end) return;
  for (uint64_t block = object.bounds().at(begin); block <= object.bounds().at(end - 1); ++block)
    needs[block] = std::min(needs[block], after_samples);
}

uint64_t evict_blocks(std::span<const Evictable> objects, uint64_t bytes, uint32_t least) {
  const auto blocks = needed_last(objects, least);
  uint64_t done = 0;
  for (size_t next = 0; done < bytes && next < blocks.size();) {
    std::vector<std::vector<uint64_t>> numbers(objects.size());
    for (uint64_t sum = done; sum < bytes && next < blocks.size(); ++next) {
      const NeededBlock& block = blocks[next];
      const BlockBounds& bounds = objects[block.object].object->bounds();
      sum += bounds.end(block.number) - bounds.begin(block.number);
      numbers[block.object].push_back(block.number);
    }
    for (size_t i = 0; i < objects.size(); ++i) {
      std::sort(numbers[i].begin(), numbers[i].end());
      done += drop(objects[i], numbers[i]);
    }
  }
  return done;
}

uint64_t evict_any(const std::filesystem::path& stem, uint64_t bytes) {
  CachedObject object(stem);
  BlockNeeds needs(object.bounds().count());
  for (uint64_t block = 0; block < needs.size(); ++block)
    needs[block] = 1 + (static_cast<uint32_t>(block * 0x9E3779B97F4A7C15u >> 32) >> 1);
  const auto claimed = [&](const Blocks& wanted, const UseBlocks& use) {
    const Blocks blocks = object.claim(wanted);
    if (blocks.count() > 0) {
      use(blocks);
      object.release(blocks);
    }
    return blocks.count();
  };
  const std::vector<Evictable> one{{&object, std::move(needs), claimed}};
  return evict_blocks(one, bytes, 0);
}

}  // namespace composer

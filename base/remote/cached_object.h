// An object's local file, as long as itself, which has those of its blocks that came so far.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "base/remote/block_table.h"
#include "base/remote/locks.h"

namespace composer {

/// STEM.data and STEM.blocks. A block's bytes are written before the table says that they are
/// there, and leave after it has ceased to say so: a process that is killed leaves no block that is
/// wrong. While this exists no other process takes the files away. Functions may be called by
/// several threads at once; those that change blocks need them claimed. Links in their place are
/// not followed.
class CachedObject {
 public:
  struct Blocks {
    uint64_t begin = 0, end = 0;
    uint64_t count() const { return end - begin; }
  };

  /// Made anew where there is none of this identity. Throws RunError. By one process at a time.
  CachedObject(const std::filesystem::path& stem, const std::string& identity,
               const BlockBounds& bounds);
  /// The one that is there. Throws RunError where there is none.
  explicit CachedObject(const std::filesystem::path& stem);
  ~CachedObject();
  CachedObject(const CachedObject&) = delete;
  CachedObject& operator=(const CachedObject&) = delete;

  /// Unless anybody uses them: takes the files away. By one process at a time.
  static bool remove(const std::filesystem::path& stem);

  const std::filesystem::path& stem() const { return stem_; }
  const std::filesystem::path& file() const { return data_path_; }
  const BlockTable& table() const { return table_; }
  const BlockBounds& bounds() const { return table_.bounds(); }

  /// Whether the block is there; reads it where only its hash tells.
  bool has(uint64_t block);
  /// Copies bytes from the file, or from where it is mapped. False where not all are there, or some
  /// left meanwhile.
  bool copy(uint64_t begin, std::span<uint8_t> into, const uint8_t* mapped);

  /// The blocks, or the first of them, that no other process has claimed now; empty where the first
  /// one is claimed.
  Blocks claim(const Blocks& wanted);
  void release(const Blocks& blocks) { claims_.unlock(lock_of(blocks)); }
  /// bytes: of all of the blocks, which nobody has yet. Returns 0, or errno where they cannot be
  /// written.
  int put(const Blocks& blocks, std::span<const uint8_t> bytes);
  /// Gives the blocks' room back to the disk.
  void drop(const Blocks& blocks);
  /// Whether it can do so.
  bool can_drop() const { return can_drop_; }
  /// Keeps all others from dropping them, until the end. False where not all are there.
  bool pin(const Blocks& blocks);

 private:
  static RangeLock::Range lock_of(const Blocks& blocks);
  void free_disk(const Blocks& blocks);
  void free_unknown();
  void open_data();

  std::filesystem::path stem_, data_path_;
  BlockTable table_;
  RangeLock claims_, pins_;
  int data_ = -1;
  bool can_drop_ = false, over_network_ = false;
};

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

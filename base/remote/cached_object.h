// An object's local file, and the eviction of its blocks. The file has the object's length, and
// holds the blocks that have been fetched.
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

/// The files STEM.data and STEM.blocks. A block's bytes are written before the table has its entry,
/// and dropped after the entry is cleared, so that a killed process leaves no wrong block. No other
/// process removes the files while this object exists. Functions may be called by several threads
/// at once. Blocks must be claimed before they are changed. Links are not followed.
class CachedObject {
 public:
  struct Blocks {
    uint64_t begin = 0, end = 0;
    uint64_t count() const { return end - begin; }
  };

  /// Makes the files unless they exist with this identity. Throws RunError. Only one process may
  /// call it at a time.
  CachedObject(const std::filesystem::path& stem, const std::string& identity,
               const BlockBounds& bounds);
  /// Opens existing files. Throws RunError when there are none.
  explicit CachedObject(const std::filesystem::path& stem);
  ~CachedObject();
  CachedObject(const CachedObject&) = delete;
  CachedObject& operator=(const CachedObject&) = delete;

  /// Removes the files; false when anybody uses them. Only one process may call it at a time.
  static bool remove(const std::filesystem::path& stem);

  const std::filesystem::path& stem() const { return stem_; }
  const std::filesystem::path& file() const { return data_path_; }
  const BlockTable& table() const { return table_; }
  const BlockBounds& bounds() const { return table_.bounds(); }

  /// Whether the block is there. Reads a doubtful block, and compares its hash.
  bool has(uint64_t block);
  /// Copies bytes from the file, or from its mapping unless `mapped` is null. False when not all
  /// are there, or some were dropped meanwhile.
  bool copy(uint64_t begin, std::span<uint8_t> into, const uint8_t* mapped);

  /// Claims the blocks, up to the first that another process has claimed. Returns the claimed
  /// blocks, which may be none.
  Blocks claim(const Blocks& wanted);
  void release(const Blocks& blocks) { claims_.unlock(lock_of(blocks)); }
  /// Writes the bytes of claimed blocks that are not there. Returns 0, or an errno.
  int put(const Blocks& blocks, std::span<const uint8_t> bytes);
  /// Drops the blocks, and frees their room on the disk.
  void drop(const Blocks& blocks);
  /// Whether the file system can free parts of files.
  bool can_drop() const { return can_drop_; }
  /// Keeps others from dropping the blocks while this object exists. False when not all are there.
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

// The table of an object's blocks that are in its local file. It is a file of its own, which all
// processes that use the object have mapped.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace composer {

/// The bounds of an object's blocks: all of one size but the last, or each of its own size.
struct BlockBounds {
  static constexpr uint64_t kAlignment = 4096;  ///< divides each begin; disks free this unit

  uint64_t bytes = 0;
  uint64_t block_bytes = 0;           ///< the size of all blocks; 0: see begins and ends
  std::vector<uint64_t> begins = {};  ///< ascending; bytes between blocks are unused
  std::vector<uint64_t> ends = {};

  /// Appends a block of its own size.
  void add(uint64_t block_size);

  uint64_t count() const;
  uint64_t begin(uint64_t block) const;
  uint64_t end(uint64_t block) const;
  /// The block that contains the byte.
  uint64_t at(uint64_t byte) const;
  bool operator==(const BlockBounds&) const = default;
};

/// A table with an entry for each block: whether the block is in the file, the boot of the system
/// since which this is known, a generation, and the block's hash. The generation counts how often
/// the block was dropped, so that a reader of its bytes sees whether they were dropped meanwhile.
/// Functions may be called by several threads and processes at once.
class BlockTable {
 public:
  using Entry = uint64_t;

  /// Makes a table without blocks at this path, replacing an old file. identity: identifies the
  /// object. Throws RunError when the disk is full. Only one process may call it at a time.
  static void create(const std::filesystem::path& path, const std::string& identity,
                     const BlockBounds& bounds);

  /// Throws RunError when the file is no table, or damaged. Only one process may construct it at a
  /// time.
  explicit BlockTable(const std::filesystem::path& path);
  ~BlockTable();
  BlockTable(const BlockTable&) = delete;
  BlockTable& operator=(const BlockTable&) = delete;

  std::string identity() const;
  const BlockBounds& bounds() const { return bounds_; }

  /// Reads after this call are not reordered before it.
  Entry entry(uint64_t block) const { return entries_[block].load(std::memory_order_acquire); }
  static bool is_there(Entry entry) { return entry >> 63 != 0; }
  /// entry: of a block that is there. Whether the entry is older than the last boot of the system:
  /// the block's bytes may not have reached the disk.
  bool is_doubtful(Entry entry) const { return (entry >> 48 & kBoots) != boot_; }
  static uint32_t hash(Entry entry) { return static_cast<uint32_t>(entry); }

  /// Notes that the block's bytes are in the file.
  void set(uint64_t block, uint32_t hash);
  /// Notes, unless the entry has changed, that a doubtful block has the bytes of its hash (sound),
  /// or is not there.
  void settle(uint64_t block, Entry entry, bool sound);
  /// Notes that the block's bytes are about to be dropped.
  void clear(uint64_t block);
  /// The number of blocks ever dropped.
  uint64_t cleared() const;

  /// Notes that the object is in use now.
  void use() const;
  /// When the object was last in use; ns since 1970.
  int64_t last_used() const;

 private:
  static constexpr uint64_t kBoots = 0x7FFF;
  struct Header;

  Header& header() const;
  void map(const std::filesystem::path& path);
  void read_bounds(const std::filesystem::path& path);
  void note_start_of_system();

  void* memory_ = nullptr;
  size_t size_ = 0;
  std::atomic<Entry>* entries_ = nullptr;
  uint64_t boot_ = 0;
  BlockBounds bounds_;
};

}  // namespace composer

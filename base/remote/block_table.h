// Which blocks of an object lie in its local file: a table in a file of its own, which all
// processes that use it have mapped.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace composer {

/// How an object's bytes are cut into blocks: pieces of one size but for the last, or pieces of
/// sizes of their own.
struct BlockBounds {
  static constexpr uint64_t kAlignment = 4096;  ///< of begins: what a disk gives back

  uint64_t bytes = 0;
  uint64_t block_bytes = 0;           ///< 0: see begins
  std::vector<uint64_t> begins = {};  ///< ascending; what lies between blocks is nothing
  std::vector<uint64_t> ends = {};

  /// A block behind those before, of a size of its own.
  void add(uint64_t block_size);

  uint64_t count() const;
  uint64_t begin(uint64_t block) const;
  uint64_t end(uint64_t block) const;
  /// The block that has the byte.
  uint64_t at(uint64_t byte) const;
  bool operator==(const BlockBounds&) const = default;
};

/// An entry says whether a block is there, since which start of the system that is known to be
/// true, how often it was taken away (so that who has read its bytes sees whether they went
/// meanwhile), and its hash. Functions may be called by several threads and processes at once.
class BlockTable {
 public:
  using Entry = uint64_t;

  /// Makes a table without blocks at this path, in place of what is there. identity: what the
  /// object is. Throws RunError where there is no room. By one process at a time.
  static void create(const std::filesystem::path& path, const std::string& identity,
                     const BlockBounds& bounds);

  /// Throws RunError where it is no table, or damaged. By one process at a time.
  explicit BlockTable(const std::filesystem::path& path);
  ~BlockTable();
  BlockTable(const BlockTable&) = delete;
  BlockTable& operator=(const BlockTable&) = delete;

  std::string identity() const;
  const BlockBounds& bounds() const { return bounds_; }

  /// What was read before this, and what is read after it, stays there.
  Entry entry(uint64_t block) const { return entries_[block].load(std::memory_order_acquire); }
  static bool is_there(Entry entry) { return entry >> 63 != 0; }
  /// Of a block that is there: whether it was so before the system last started. Its bytes may not
  /// have come to the disk.
  bool is_doubtful(Entry entry) const { return (entry >> 48 & kBoots) != boot_; }
  static uint32_t hash(Entry entry) { return static_cast<uint32_t>(entry); }

  /// The block's bytes are in the file.
  void set(uint64_t block, uint32_t hash);
  /// Unless the entry is another by now: its bytes are those of the hash; or it is not there.
  void settle(uint64_t block, Entry entry, bool sound);
  /// The block's bytes are about to go.
  void clear(uint64_t block);
  /// Blocks that were taken away, ever.
  uint64_t cleared() const;

  /// Notes that the object is in use now.
  void use() const;
  /// ns since 1970.
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

// The folder in which a machine caches what was read from stores.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/remote/locks.h"
#include "base/remote/range_cache.h"

namespace composer {

struct CacheOptions {
  std::filesystem::path folder;
  uint64_t limit = 0;  ///< bytes of all files, within room_on_disk(); 0: only room_on_disk()
};

/// The folder of the files of RangeCaches, and the room that they may take of its disk. All
/// processes of a machine share it. Functions may be called by several threads at once.
class CacheFolder : public std::enable_shared_from_this<CacheFolder> {
 public:
  /// Makes the folder. Throws UserError when it cannot be written, or is another user's.
  explicit CacheFolder(CacheOptions options);

  /// The cache in the subfolder "objects" of the options' folder; the same object as before for the
  /// same options. Throws UserError when there is no such folder.
  static std::shared_ptr<CacheFolder> get(const RemoteOptions& remote = {});

  const std::filesystem::path& path() const { return options_.folder; }

  /// Opens an object. While a version is open, all callers get the same RangeCache, which reads
  /// from the store by the latest remote.fetch. Removes other versions that nobody uses. Throws
  /// UserError when the folder cannot be used.
  std::shared_ptr<RangeCache> open(RemoteBytes remote);

  /// RangeCache::follow() calls it. The objects that the order names stay open until the returned
  /// value is destroyed.
  std::shared_ptr<void> follow(ReadOrder order);
  /// Makes room for bytes of `asker`; false where there is none. A call that returns true is
  /// followed by filled() with the same bytes. ahead: the first block to be added, if nobody needs
  /// it yet. Evicts unused objects first, the longest unused before others; then blocks: of `asker`
  /// if it has its share of the room, else of the largest object. All objects that orders name
  /// count as one object, whose blocks leave in a common order.
  bool make_room(uint64_t bytes, const RangeCache& asker, std::optional<uint64_t> ahead);
  /// The bytes of make_room() were added, or will not be.
  void filled(uint64_t bytes);

  /// The bytes that all files may have together at present.
  uint64_t most_bytes();

  /// The disk, or a quota, has no room for more bytes than there are now.
  void disk_is_full();

  /// The bytes that the folder takes of the disk.
  uint64_t used() const;

 private:
  struct Known {
    std::filesystem::path stem;
    uint64_t bytes = 0;
    std::shared_ptr<RangeCache> own{};  ///< null unless this process has it open
  };

  std::shared_ptr<RangeCache> known(const std::filesystem::path& stem) const;
  std::shared_ptr<RangeCache> renewed(const std::filesystem::path& stem,
                                      const RemoteBytes& remote) const;
  void look_around();
  void tidy(const std::string& name, const std::string& stem);
  std::vector<Known> objects() const;
  using Needs = std::unordered_map<const RangeCache*, BlockNeeds>;
  Needs needs_of_orders() const;
  uint64_t allowed(uint64_t used) const;
  bool fits(uint64_t bytes) const;
  void promise(uint64_t bytes);
  bool look_for_room(std::unique_lock<std::mutex>& lock, uint64_t bytes, const RangeCache& asker,
                     std::optional<uint64_t> ahead);
  void evict(uint64_t bytes, uint64_t allowed, const RangeCache& asker,
             std::optional<uint64_t> ahead);

  CacheOptions options_;

  mutable std::mutex open_lock_;
  std::map<std::filesystem::path, std::weak_ptr<RangeCache>> open_;  ///< by stem
  std::set<std::string> stems_;      ///< stems of the objects in the folder at looked_at_
  std::optional<double> looked_at_;  ///< steady_seconds() of the last look at the folder

  mutable std::mutex orders_lock_;
  std::list<ReadOrder> orders_;

  std::mutex room_lock_;
  // Bytes; "the last look" is look_for_room()'s.
  uint64_t used_ = 0;       ///< used at the last look, plus added_
  uint64_t allowed_ = 0;    ///< allowed() at the last look
  uint64_t added_ = 0;      ///< added by this process since the last look
  uint64_t pending_ = 0;    ///< promised, and not yet filled
  uint64_t promised_ = 0;   ///< promised since the last look
  uint64_t processes_ = 1;  ///< the number of processes that used the folder at the last look
  std::unique_ptr<Reservation> reservation_;
  bool evicting_ = false;  ///< true while a thread makes room without the lock
  std::condition_variable evicted_;
  double full_until_ = 0;    ///< no room before this time for blocks that are not needed yet
  double locked_until_ = 0;  ///< no room before this time: another process keeps the folder's lock
  uint64_t found_full_at_ = ~uint64_t{0};
};

/// The beginning of the names of an object's or folder's files in a CacheFolder.
std::string cache_name(const std::string& path);

/// The bytes that a folder may take of a disk with `disk` bytes, of which the folder takes `used`
/// and `free` are free: all but 1 GiB, or a twentieth of a small disk, or half of used + free,
/// whichever is least.
uint64_t room_on_disk(uint64_t used, uint64_t free, uint64_t disk);

/// The versions, by identity, of the objects that this process has open.
std::map<std::string, std::string> versions_in_use();

/// Opens the object at the path, in the options' folder. Throws UserError when it does not exist.
std::shared_ptr<RangeCache> open_remote(const RemotePath& path, const RemoteOptions& options);

}  // namespace composer

// An object of a store, with a local cache of the parts that were read.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "base/remote/cached_object.h"
#include "base/remote/remote_bytes.h"

namespace composer {

class CacheFolder;
class RangeCache;

/// Tells that bytes of an object are needed after `after_samples` samples.
using Want = std::function<void(const RangeCache& object, uint64_t begin, uint64_t end,
                                uint32_t after_samples)>;
/// Calls `want` for all bytes that will be needed, of one object or of many in the same folder.
using ReadOrder = std::function<void(const Want& want)>;

/// All threads and, through its files, all processes of the machine share it: each finds, or waits
/// for, the bytes that another reads from the store. Opened by CacheFolder::open(). The store's
/// RunError becomes RemoteError; its UserError stays.
class RangeCache {
 public:
  RangeCache(std::shared_ptr<CacheFolder> folder, RemoteBytes remote,
             const std::filesystem::path& stem);
  ~RangeCache();

  const std::string& name() const { return remote_.name; }
  /// Identifies the object among all others: the name, or the name and more.
  const std::string& identity() const {
    return remote_.identity.empty() ? remote_.name : remote_.identity;
  }
  const std::string& version() const { return remote_.version; }
  uint64_t bytes() const { return remote_.bounds.bytes; }
  /// Sets how bytes are read from the store from now on, for instance by an address with a newer
  /// signature. When addresses may expire, the one before is kept for when the store refuses this.
  void fetch_by(RemoteBytes::Fetch fetch);

  /// The local file. It has the object's length, and zeros for missing bytes.
  const std::filesystem::path& file() const { return object_.file(); }

  /// Reads bytes, from the store when the file does not have them. mapped: the mapping of file();
  /// null: the file is read.
  void read(uint64_t begin, std::span<uint8_t> into, const uint8_t* mapped = nullptr);
  /// Prefetches bytes. Returns whether they are in the file. False also when others are fetching
  /// them, there is no room, or they cannot be read: read() reports the error.
  bool bring(uint64_t begin, uint64_t end);
  /// Returns when the bytes are in the file, and keeps them there while this object exists. Throws
  /// UserError when the cache has no room for them.
  void pin(uint64_t begin, uint64_t end);
  /// Whether all blocks are known to be in the file. Looks at some of the others, and goes on until
  /// `look_until` (steady_seconds()) while none is missing.
  bool is_whole(double look_until = 0) const;

  /// Announces the coming reads. When there is no room for all announced bytes, the bytes that are
  /// needed last are evicted first, of any object. Several orders may be active, each until the
  /// returned value is destroyed.
  std::shared_ptr<void> follow(ReadOrder order);

  const CachedObject& object() const { return object_; }
  /// The argument of evict_blocks(), valid while this object exists. Blocks that a thread has
  /// claimed stay.
  Evictable evictable(BlockNeeds needs);

 private:
  using Blocks = CachedObject::Blocks;
  enum class Need { now, later };
  enum class Found { here, no_room, elsewhere };
  class Claim;

  Found have(uint64_t begin, uint64_t end, Need need);
  uint64_t run_end(uint64_t block, uint64_t end) const;
  bool fill(Claim& claim, Need need);
  void fetch(uint64_t begin, std::span<uint8_t> into);
  void ask(uint64_t begin, std::span<uint8_t> into);
  bool wait_for_thread(uint64_t block);

  using SharedFetch = std::shared_ptr<const RemoteBytes::Fetch>;
  std::mutex fetch_lock_;
  SharedFetch fetch_, other_fetch_;  ///< the first to use, and one for after a refusal, or null

  const std::shared_ptr<CacheFolder> folder_;
  const RemoteBytes remote_;  ///< without its `fetch`
  mutable CachedObject object_;

  std::mutex claims_lock_;
  std::condition_variable claims_changed_;
  /// Blocks that a thread of this process is fetching.
  struct ThreadClaim {
    Blocks blocks;
    std::shared_ptr<std::exception_ptr> failure;  ///< set when the fetch fails
  };
  std::list<ThreadClaim> claims_;

  /// Bytes that were in the file when they were wanted, since one was last missing.
  mutable std::atomic<uint64_t> found_{0};

  mutable std::mutex whole_lock_;
  mutable uint64_t whole_before_ = 0;          ///< all blocks before this one were there
  mutable uint64_t cleared_then_ = 0;          ///< BlockTable::cleared() at that time
  mutable std::atomic<bool> is_whole_{false};  ///< the last result of is_whole()
};

}  // namespace composer

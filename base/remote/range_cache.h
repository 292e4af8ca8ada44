// An object of a store whose parts are kept in a local file once they were read.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "base/remote/cached_object.h"
#include "base/remote/remote_bytes.h"

namespace composer {

class CacheFolder;
class RangeCache;

/// Says that bytes of an object are needed once so many samples are read.
using Want = std::function<void(const RangeCache& object, uint64_t begin, uint64_t end,
                                uint32_t after_samples)>;
/// Says it of all bytes that will be needed, of one object or of many in the same folder.
using ReadOrder = std::function<void(const Want& want)>;

/// Shared by all threads and, through its files, by all processes of the machine: what one of them
/// reads from the store the others find, or wait for. Opened by CacheFolder::open. A store's errors
/// come as RemoteError, or as UserError where it throws that.
class RangeCache {
 public:
  RangeCache(std::shared_ptr<CacheFolder> folder, RemoteBytes remote,
             const std::filesystem::path& stem);
  ~RangeCache();

  const std::string& name() const { return remote_.name; }
  /// What tells the object from all others, its name alone or with more.
  const std::string& identity() const {
    return remote_.identity.empty() ? remote_.name : remote_.identity;
  }
  const std::string& version() const { return remote_.version; }
  uint64_t bytes() const { return remote_.bounds.bytes; }
  /// From now on the store is asked so: by an address that was signed later, for instance. Where
  /// addresses may expire, the one before is kept, and asked by where the store refuses this.
  void fetch_by(RemoteBytes::Fetch fetch);

  /// As long as the object; has zeros where nothing is.
  const std::filesystem::path& file() const { return object_.file(); }

  /// The bytes, from the store where they are not here. mapped: where file() is mapped; else it is
  /// read.
  void read(uint64_t begin, std::span<uint8_t> into, const uint8_t* mapped = nullptr);
  /// For bytes that will be read: returns when they are here, or others bring them, or there is no
  /// room, or they cannot be had: read() will tell. Whether they are here.
  bool bring(uint64_t begin, uint64_t end);
  /// Returns when the bytes are here; they stay until the end. Throws UserError where the cache has
  /// no room for them.
  void pin(uint64_t begin, uint64_t end);
  /// Whether all is here, as far as that is known. Looks at some of what is not known, and goes on
  /// until this time (steady_seconds) while nothing is missing.
  bool is_whole(double look_until = 0) const;

  /// Where there is no room for all that orders tell of, what is needed last leaves first,
  /// whichever object it lies in. Several orders may stand beside each other, each until what is
  /// returned ends.
  std::shared_ptr<void> follow(ReadOrder order);

  const CachedObject& object() const { return object_; }
  /// For evict_blocks(), while this exists. Blocks that a thread is at stay.
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
  SharedFetch fetch_, other_fetch_;  ///< the one to ask by first; null where there is no other

  const std::shared_ptr<CacheFolder> folder_;
  const RemoteBytes remote_;  ///< without its `fetch`
  mutable CachedObject object_;

  std::mutex claims_lock_;
  std::condition_variable claims_changed_;
  /// Of this process's threads.
  struct ThreadClaim {
    Blocks blocks;
    std::shared_ptr<std::exception_ptr> failure;  ///< in the end; null where there was none
  };
  std::list<ThreadClaim> claims_;

  /// Bytes that were in the file when they were wanted, since one was last missing.
  mutable std::atomic<uint64_t> found_{0};

  mutable std::mutex whole_lock_;
  mutable uint64_t whole_before_ = 0, cleared_then_ = 0;  ///< blocks before it were there
  mutable std::atomic<bool> is_whole_{false};             ///< when last looked at
};

}  // namespace composer

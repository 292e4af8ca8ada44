// An object of a store whose parts are kept in a local file once they were read.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

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

  /// Whether evict() can do anything.
  bool can_evict() const { return object_.can_drop(); }
  /// On the disk.
  uint64_t disk_bytes() const { return object_.disk_bytes(); }

  /// Of each block: how many samples are read before it is needed. kUnneeded: it is not.
  using Needs = std::vector<uint32_t>;
  static constexpr uint32_t kUnneeded = std::numeric_limits<uint32_t>::max();
  /// Of an object that no order tells of.
  Needs no_needs() const { return Needs(object_.bounds().count(), kUnneeded); }
  /// The blocks with these bytes are needed after so many samples, unless they are before.
  void note_need(uint64_t begin, uint64_t end, uint32_t after_samples, Needs& needs) const;

  struct WithNeeds {
    RangeCache* object;
    Needs needs;
  };
  /// Takes away blocks of so many bytes together, those needed last first, none of them needed
  /// after `least` samples or before. Returns how many bytes they had.
  static uint64_t evict(std::span<const WithNeeds> objects, uint64_t bytes, uint32_t least);

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

  mutable std::atomic<uint64_t> found_{
      0};  ///< bytes that were here when they were wanted, one after another

  mutable std::mutex whole_lock_;
  mutable uint64_t whole_before_ = 0, cleared_then_ = 0;  ///< blocks before it were there
  mutable std::atomic<bool> is_whole_{false};             ///< when last looked at
};

/// For objects that nobody of this process uses: as RangeCache::evict, by no order.
uint64_t evict_any(const std::filesystem::path& stem, uint64_t bytes);

}  // namespace composer

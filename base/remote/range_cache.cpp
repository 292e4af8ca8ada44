#include "base/remote/range_cache.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/remote/cache_folder.h"
#include "base/remote/leaving.h"
#include "base/several_threads.h"

namespace composer {
namespace {

using Blocks = CachedObject::Blocks;

constexpr uint64_t kRequestBytes = 8 << 20;
constexpr uint64_t kAheadBytes = 128 << 20;  ///< bytes being prefetched, of all objects
constexpr uint64_t kAheadWhole = 512 << 20;  ///< the same for objects that are fetched whole
// Another process that has claimed a block gets 30 seconds, plus the time of its bytes at 1 MB/s.
constexpr double kClaimPatience = 30, kSlowest = 1e6;
constexpr auto kLookForWaiting = std::chrono::milliseconds(100);  ///< between checks of LeaveWhen

/// A part of the memory for prefetching, which all objects share. Waits until no more than `most`
/// bytes are taken, with these, or this thread is cancelled.
class AheadMemory {
 public:
  AheadMemory(uint64_t bytes, uint64_t most) : bytes_(std::min(bytes, most)) {
    std::unique_lock guard(lock);
    const auto fits = [&] { return taken + bytes_ <= most; };
    while (!changed.wait_for(guard, kLookForWaiting, fits) && !LeaveWhen::asked()) {
    }
    taken += bytes_;
  }
  ~AheadMemory() {
    {
      const std::lock_guard guard(lock);
      taken -= bytes_;
    }
    changed.notify_all();
  }
  AheadMemory(const AheadMemory&) = delete;
  AheadMemory& operator=(const AheadMemory&) = delete;

 private:
  static inline std::mutex lock;
  static inline std::condition_variable changed;
  static inline uint64_t taken = 0;

  const uint64_t bytes_;
};

void pause() { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }

}  // namespace

/// Claims the wanted blocks, up to the first that another has claimed, for its lifetime. Empty when
/// the first block is claimed.
class RangeCache::Claim {
 public:
  Claim(RangeCache& cache, const Blocks& wanted) : cache_(cache), blocks_(wanted) {
    {
      const std::lock_guard guard(cache_.claims_lock_);
      for (const auto& [other, failure] : cache_.claims_) {
        if (other.end <= blocks_.begin || other.begin >= blocks_.end) continue;
        if (other.begin <= blocks_.begin) threads_end_ = std::max(threads_end_, other.end);
        blocks_.end = std::max(blocks_.begin, std::min(blocks_.end, other.begin));
      }
      if (blocks_.count() == 0) return;
      own_claim_ = cache_.claims_.insert(cache_.claims_.end(),
                                         {blocks_, std::make_shared<std::exception_ptr>()});
    }
    const Blocks all = blocks_;
    try {
      blocks_ = cache_.object_.claim(blocks_);
    } catch (...) {
      forget();
      throw;
    }
    if (blocks_.count() == 0) {
      forget();
    } else if (blocks_.end < all.end) {
      {
        const std::lock_guard guard(cache_.claims_lock_);
        own_claim_->blocks = blocks_;
      }
      cache_.claims_changed_.notify_all();
    }
  }
  ~Claim() {
    if (blocks_.count() == 0) return;
    cache_.object_.release(blocks_);
    forget();
  }
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;

  const Blocks& blocks() const { return blocks_; }
  /// Gives the failure to the threads that wait for the blocks. Call it before the claim ends.
  void fail(std::exception_ptr failure) const {
    const std::lock_guard guard(cache_.claims_lock_);
    *own_claim_->failure = std::move(failure);
  }
  /// When blocks() is empty because another thread of this process has claimed the first block: the
  /// end of that claim.
  std::optional<uint64_t> threads_end() const {
    return threads_end_ > 0 ? std::optional(threads_end_) : std::nullopt;
  }

 private:
  void forget() {
    {
      const std::lock_guard guard(cache_.claims_lock_);
      cache_.claims_.erase(own_claim_);
    }
    cache_.claims_changed_.notify_all();
  }

  RangeCache& cache_;
  Blocks blocks_;
  uint64_t threads_end_ = 0;
  std::list<ThreadClaim>::iterator own_claim_;
};

RangeCache::RangeCache(std::shared_ptr<CacheFolder> folder, RemoteBytes remote,
                       const std::filesystem::path& stem)
    : fetch_(std::make_shared<const RemoteBytes::Fetch>(std::move(remote.fetch))),
      folder_(std::move(folder)),
      remote_(std::move(remote)),
      object_(stem, remote_.name + "\n" + remote_.version, remote_.bounds) {}

RangeCache::~RangeCache() = default;

void RangeCache::fetch_by(RemoteBytes::Fetch fetch) {
  auto left = std::make_shared<const RemoteBytes::Fetch>(std::move(fetch));
  const std::lock_guard guard(fetch_lock_);  // released before `left` is destroyed
  fetch_.swap(left);
  if (remote_.may_expire) other_fetch_.swap(left);
}

/// Reads from the store. The latest address need not have the latest signature: after a refusal the
/// other address is tried once, and is the first from then on if it succeeds.
void RangeCache::ask(uint64_t begin, std::span<uint8_t> into) {
  SharedFetch first, other;
  {
    const std::lock_guard guard(fetch_lock_);
    first = fetch_, other = other_fetch_;
  }
  try {
    return (*first)(begin, into);
  } catch (const WrongBytes&) {
    throw;
  } catch (const UserError&) {
    if (!other) throw;
    try {
      (*other)(begin, into);
    } catch (const std::exception&) {
      other = nullptr;
    }
    if (!other) throw;
  }
  const std::lock_guard guard(fetch_lock_);
  if (fetch_ == first && other_fetch_ == other) fetch_.swap(other_fetch_);
}

void RangeCache::fetch(uint64_t begin, std::span<uint8_t> into) {
  try {
    if (remote_.failure) {
      remote_.failure->watch([&] { ask(begin, into); });
    } else {
      ask(begin, into);
    }
  } catch (const RunError& error) {
    throw RemoteError(error.what());
  }
}

/// Waits until no thread of this process has claimed the block; false when this thread is cancelled
/// before. Throws the failure of that claim.
bool RangeCache::wait_for_thread(uint64_t block) {
  std::shared_ptr<std::exception_ptr> failure;
  std::unique_lock guard(claims_lock_);
  const auto has_ended = [&] {
    const auto has = [&](const ThreadClaim& claim) {
      return claim.blocks.begin <= block && block < claim.blocks.end;
    };
    const auto found = std::ranges::find_if(claims_, has);
    if (found != claims_.end()) failure = found->failure;
    return found == claims_.end();
  };
  while (!claims_changed_.wait_for(guard, kLookForWaiting, has_ended))
    if (LeaveWhen::asked()) return false;
  if (failure && *failure) std::rethrow_exception(*failure);
  return true;
}

void RangeCache::read(uint64_t begin, std::span<uint8_t> into, const uint8_t* mapped) {
  if (into.empty()) return;
  constexpr int kTries = 3;  // blocks may be evicted between their arrival and the copy
  try {
    for (int i = 0; i < kTries; ++i) {
      if (object_.copy(begin, into, mapped)) {
        found_ += i == 0 ? into.size() : 0;
        return;
      }
      if (have(begin, begin + into.size(), Need::now) != Found::here) break;
    }
    if (object_.copy(begin, into, mapped)) return;
  } catch (const RemoteError&) {
    throw;
  } catch (const RunError&) {  // an error of the cache's own files
  }
  fetch(begin, into);
}

bool RangeCache::bring(uint64_t begin, uint64_t end) {
  if (begin >= end) return true;
  try {
    return have(begin, end, Need::later) == Found::here;
  } catch (const std::exception&) {  // read() will meet it again
    return false;
  }
}

void RangeCache::pin(uint64_t begin, uint64_t end) {
  if (begin >= end) return;
  const auto bring_part = [&](uint64_t i) {
    const uint64_t at = begin + i * kRequestBytes;
    bring(at, std::min(end, at + kRequestBytes));
  };
  in_several_threads((end - begin + kRequestBytes - 1) / kRequestBytes, bring_part, 8);
  const Blocks blocks{object_.bounds().at(begin), object_.bounds().at(end - 1) + 1};
  for (;; pause()) {
    const Found found = have(begin, end, Need::now);
    if (found == Found::no_room) break;
    if (found == Found::here && object_.pin(blocks)) return;
  }
  throw UserError("remote.cache_limit: " + folder_->path().string() + " has no room for the " +
                  std::to_string((end - begin + 999'999) / 1'000'000) + " MB of " + name() +
                  " that are needed all the time; allow more, or free the disk");
}

bool RangeCache::is_whole(double look_until) const {
  constexpr uint64_t kMost = 4096;  // blocks between looks at the time
  const std::unique_lock guard(whole_lock_, std::try_to_lock);
  if (!guard) return is_whole_;
  const BlockTable& table = object_.table();
  const uint64_t cleared = table.cleared(), blocks = object_.bounds().count();
  if (std::exchange(cleared_then_, cleared) != cleared) whole_before_ = 0, found_ = 0;
  for (uint64_t left = kMost; whole_before_ < blocks; --left, ++whole_before_) {
    if (left == 0 && steady_seconds() >= look_until) break;
    if (left == 0) left = kMost;
    const auto entry = table.entry(whole_before_);
    if (!BlockTable::is_there(entry) || table.is_doubtful(entry)) break;
  }
  // Parts that nobody reads are never fetched.
  return is_whole_ = whole_before_ == blocks || found_ > bytes();
}

uint64_t RangeCache::run_end(uint64_t block, uint64_t end) const {
  const BlockBounds& bounds = object_.bounds();
  if (bounds.block_bytes == 0) return block + 1;
  const uint64_t begin = bounds.begin(block);
  uint64_t last = block + 1;
  while (last < end && bounds.end(last) - begin <= kRequestBytes && !object_.has(last)) ++last;
  return last;
}

/// Fetches the bytes that are missing. elsewhere: another process takes too long with its claim,
/// this thread is cancelled, or, for later needs, others are fetching some of the bytes.
RangeCache::Found RangeCache::have(uint64_t begin, uint64_t end, Need need) {
  const uint64_t last = object_.bounds().at(end - 1) + 1;
  double late = 0;
  Found found = Found::here;
  bool fetched = false;
  for (uint64_t block = object_.bounds().at(begin); block < last;) {
    if (object_.has(block)) {
      ++block;
      continue;
    }
    const uint64_t run = run_end(block, last);
    std::optional<AheadMemory> memory;
    if (need == Need::later) {
      memory.emplace(
          object_.bounds().end(run - 1) - object_.bounds().begin(block) + remote_.fetch_memory,
          remote_.fetch_memory > 0 ? kAheadWhole : kAheadBytes);
      if (LeaveWhen::asked()) return Found::elsewhere;
    }
    Claim claim(*this, {block, run});
    if (claim.blocks().count() > 0) {
      if (!fill(claim, need)) return Found::no_room;
      fetched = true;
      block = claim.blocks().end;
      late = 0;
    } else if (need == Need::later) {
      block = claim.threads_end().value_or(block + 1);
      found = Found::elsewhere;
    } else if (claim.threads_end()) {
      if (!wait_for_thread(block)) return Found::elsewhere;
    } else {
      const uint64_t bytes = object_.bounds().end(block) - object_.bounds().begin(block);
      if (late == 0)
        late = steady_seconds() + kClaimPatience + static_cast<double>(bytes) / kSlowest;
      if (steady_seconds() > late || LeaveWhen::asked()) return Found::elsewhere;
      pause();
    }
  }
  if (!fetched && found == Found::here && need == Need::later) found_ += end - begin;
  return found;
}

/// Fetches the claimed blocks that are still missing. False when there is no room.
bool RangeCache::fill(Claim& claim, Need need) {
  Blocks blocks = claim.blocks();
  while (blocks.count() > 0 && object_.has(blocks.begin)) ++blocks.begin;
  while (blocks.count() > 0 && object_.has(blocks.end - 1)) --blocks.end;
  if (blocks.count() == 0) return true;
  const uint64_t begin = object_.bounds().begin(blocks.begin);
  const uint64_t bytes = object_.bounds().end(blocks.end - 1) - begin;
  const auto ahead = need == Need::later ? std::optional(blocks.begin) : std::nullopt;
  constexpr uint64_t unit = BlockBounds::kAlignment;
  const uint64_t on_disk = (bytes + unit - 1) / unit * unit;
  if (!folder_->make_room(on_disk, *this, ahead)) return false;
  struct Filled {
    CacheFolder& folder;
    const uint64_t bytes;
    ~Filled() { folder.filled(bytes); }
  } const filled{*folder_, on_disk};
  const auto memory = std::make_unique_for_overwrite<uint8_t[]>(bytes);
  const std::span<uint8_t> data(memory.get(), bytes);
  try {
    fetch(begin, data);
  } catch (...) {
    if (!LeaveWhen::asked()) claim.fail(std::current_exception());
    throw;
  }
  found_ = 0;
  const int error = object_.put(blocks, data);
  if (error == ENOSPC || error == EDQUOT) folder_->disk_is_full();
  if (error != 0) object_.drop(blocks);  // the part that was written
  return error == 0;
}

std::shared_ptr<void> RangeCache::follow(ReadOrder order) {
  return folder_->follow(std::move(order));
}

Evictable RangeCache::evictable(BlockNeeds needs) {
  return {&object_, std::move(needs), [this](const Blocks& wanted, const UseBlocks& use) {
            const Claim claim(*this, wanted);
            if (claim.blocks().count() > 0) use(claim.blocks());
            return claim.blocks().count();
          }};
}

}  // namespace composer

#include "base/remote/cache_folder.h"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/atomic_file.h"
#include "base/files/user_cache_folder.h"
#include "base/host_name.h"
#include "base/log.h"
#include "base/remote/shared_disk.h"
#include "base/text.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kKeptFree = 1 << 30;
constexpr double kPatience = 60;   ///< seconds to wait for another process's lock on the folder
constexpr double kLookAgain = 60;  ///< seconds between looks at the folder

/// The lock on the folder. Throws RunError when another process keeps it.
class FolderLock {
 public:
  explicit FolderLock(const fs::path& folder) : lock_(folder / ".lock", kPatience) {
    if (lock_.error() != 0) throw RunError(folder.string() + ": " + lock_.problem());
  }

 private:
  const LockFile lock_;
};

std::string hash_of(const std::string& text) {
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(fnv1a(text)));
  return digits;
}

uint64_t disk_bytes(const fs::path& file) {
  struct stat status {};
  return ::stat(file.c_str(), &status) == 0 ? static_cast<uint64_t>(status.st_blocks) * 512 : 0;
}

int64_t last_used(const fs::path& stem) {
  try {
    return BlockTable(stem.string() + ".blocks").last_used();
  } catch (const RunError&) {
    return 0;
  }
}

/// The objects that this process has open, in all folders.
struct InUse {
  static inline std::mutex lock;
  static inline std::vector<std::weak_ptr<RangeCache>> all;

  static void add(const std::shared_ptr<RangeCache>& cache) {
    const std::lock_guard guard(lock);
    std::erase_if(all, [](const auto& one) { return one.expired(); });
    all.push_back(cache);
  }
};

}  // namespace

std::string cache_name(const std::string& path) {
  std::string name;
  const size_t end = std::min(path.find_last_not_of('/') + 1, path.size());
  const size_t begin = path.rfind('/', end > 0 ? end - 1 : 0) + 1;
  for (const char c : path.substr(begin, end - begin)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || (c == '.' && !name.empty());
    if (plain && name.size() < 64) name += c;
  }
  return (name.empty() ? "object" : name) + "-" + hash_of(path) + "-";
}

uint64_t room_on_disk(uint64_t used, uint64_t free, uint64_t disk) {
  const uint64_t kept = std::min({kKeptFree, disk / 20, (used + free) / 2});
  return used + free - std::min(free, kept);
}

std::map<std::string, std::string> versions_in_use() {
  const std::lock_guard guard(InUse::lock);
  std::map<std::string, std::string> versions;
  for (const auto& one : InUse::all)
    if (const auto cache = one.lock()) versions[cache->identity()] = cache->version();
  return versions;
}

std::shared_ptr<RangeCache> open_remote(const RemotePath& path, const RemoteOptions& options) {
  return CacheFolder::get(options)->open(bytes_at(path, options));
}

CacheFolder::CacheFolder(CacheOptions options) : options_(std::move(options)) {
  if (options_.folder.empty())
    throw UserError(
        "remote.cache_dir: missing; neither XDG_CACHE_HOME nor HOME names a folder for what is "
        "read from stores");
  const auto make = [&] {
    std::error_code error;
    fs::create_directories(options_.folder, error);
    if (error || ::access(options_.folder.c_str(), W_OK) != 0)
      throw UserError("remote.cache_dir: " + options_.folder.string() +
                      ": cannot be written: " + (error ? error.message() : std::strerror(errno)));
  };
  make();
  if (is_shared_by_machines(options_.folder)) {
    options_.folder /= host_name();
    make();
  }
  refuse_folder_of_others(options_.folder);
  try {
    reservation_ = std::make_unique<Reservation>(options_.folder / ".pending");
  } catch (const RunError& error) {
    throw UserError("remote.cache_dir: " + std::string(error.what()));
  }
}

std::shared_ptr<CacheFolder> CacheFolder::get(const RemoteOptions& remote) {
  static std::mutex lock;
  static CacheOptions of_folder;
  static std::shared_ptr<CacheFolder> folder;
  const fs::path base = remote.cache_dir.empty() ? user_cache_folder() : remote.cache_dir;
  CacheOptions options{.folder = base.empty() ? base : base / "objects",
                       .limit = remote.cache_limit};
  const std::lock_guard guard(lock);
  if (!folder || options.folder != of_folder.folder || options.limit != of_folder.limit) {
    folder = std::make_shared<CacheFolder>(options);
    of_folder = std::move(options);
  }
  return folder;
}

std::shared_ptr<RangeCache> CacheFolder::known(const fs::path& stem) const {
  const auto found = open_.find(stem);
  return found == open_.end() ? nullptr : found->second.lock();
}

/// The open object of the stem, or null. It reads by remote.fetch from now on, whose address may
/// have a newer signature.
std::shared_ptr<RangeCache> CacheFolder::renewed(const fs::path& stem,
                                                 const RemoteBytes& remote) const {
  auto cache = known(stem);
  if (cache) cache->fetch_by(remote.fetch);
  return cache;
}

std::shared_ptr<RangeCache> CacheFolder::open(RemoteBytes remote) {
  const std::string name = cache_name(remote.identity.empty() ? remote.name : remote.identity);
  const fs::path stem = options_.folder / (name + hash_of(remote.version));
  {
    const std::lock_guard guard(open_lock_);
    if (auto cache = renewed(stem, remote)) return cache;
  }
  try {
    const FolderLock lock(options_.folder);  // before open_lock_, as in make_room()
    const std::lock_guard guard(open_lock_);
    if (auto cache = renewed(stem, remote)) return cache;
    tidy(name, stem.filename().string());
    auto cache = std::make_shared<RangeCache>(shared_from_this(), std::move(remote), stem);
    if (static std::atomic<bool> told; !cache->object().can_drop() && !told.exchange(true))
      log::warn(options_.folder.string() +
                ": its file system gives back no parts of files; once the limit is reached, more "
                "is read and not kept");
    open_[stem] = cache;
    InUse::add(cache);
    return cache;
  } catch (const RunError& error) {
    throw UserError("remote.cache_dir: " + std::string(error.what()));
  } catch (const fs::filesystem_error& error) {
    throw UserError("remote.cache_dir: " + std::string(error.what()));
  }
}

/// Removes partial files of killed processes and old listings; notes the objects of the folder.
void CacheFolder::look_around() {
  remove_partial_files(options_.folder);
  const auto day_ago = fs::file_time_type::clock::now() - std::chrono::hours(24);
  std::vector<fs::path> listings;
  stems_.clear();
  for (const auto& entry : fs::directory_iterator(options_.folder)) {
    const fs::path& path = entry.path();
    std::error_code gone;
    if (path.extension() == ".blocks") stems_.insert(path.stem().string());
    if (path.filename().string().find(".listing") != std::string::npos &&
        entry.last_write_time(gone) < day_ago && !gone)
      listings.push_back(path);
  }
  std::error_code gone;
  for (const auto& path : listings) fs::remove(path, gone);
}

/// Removes other versions of the object.
void CacheFolder::tidy(const std::string& name, const std::string& stem) {
  if (const double now = steady_seconds(); !looked_at_ || now > *looked_at_ + kLookAgain) {
    look_around();
    looked_at_ = now;
  }
  for (auto at = stems_.lower_bound(name); at != stems_.end() && at->starts_with(name);) {
    const bool left = *at != stem && CachedObject::remove(options_.folder / *at);
    at = left ? stems_.erase(at) : std::next(at);
  }
  stems_.insert(stem);
}

uint64_t CacheFolder::used() const {
  uint64_t bytes = 0;
  std::error_code error;
  for (fs::directory_iterator at(options_.folder, error), end; !error && at != end;
       at.increment(error))
    bytes += disk_bytes(at->path());
  return bytes;
}

uint64_t CacheFolder::allowed(uint64_t used) const {
  constexpr uint64_t kNoLimit = ~uint64_t{0} / 4;
  const uint64_t limit = std::min(options_.limit > 0 ? options_.limit : kNoLimit, found_full_at_);
  struct statvfs disk {};
  if (::statvfs(options_.folder.c_str(), &disk) != 0) return std::min(limit, used);
  return std::min(limit,
                  room_on_disk(used, disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize));
}

uint64_t CacheFolder::most_bytes() {
  const uint64_t now = used();
  const std::lock_guard guard(room_lock_);
  return allowed(now);
}

std::vector<CacheFolder::Known> CacheFolder::objects() const {
  std::vector<Known> all;
  std::error_code error;
  const std::lock_guard guard(open_lock_);
  for (fs::directory_iterator at(options_.folder, error), end; !error && at != end;
       at.increment(error)) {
    if (at->path().extension() != ".data") continue;
    Known one{.stem = at->path().parent_path() / at->path().stem(),
              .bytes = disk_bytes(at->path())};
    one.own = known(one.stem);
    all.push_back(std::move(one));
  }
  return all;
}

/// Whether the bytes may be added without a look at the disk. All processes together may add a 64th
/// of the allowed bytes until each looks again.
bool CacheFolder::fits(uint64_t bytes) const {
  const uint64_t all = allowed_ / 64;
  return used_ + pending_ + bytes + all <= allowed_ && promised_ + bytes <= all / processes_;
}

bool CacheFolder::make_room(uint64_t bytes, const RangeCache& asker,
                            std::optional<uint64_t> ahead) {
  if (options_.limit > 0 && bytes > options_.limit) return false;
  std::unique_lock lock(room_lock_);
  for (;; evicted_.wait(lock)) {
    if (steady_seconds() < (ahead ? std::max(full_until_, locked_until_) : locked_until_))
      return false;
    if (fits(bytes)) break;
    if (!evicting_) return look_for_room(lock, bytes, asker, ahead);
  }
  promise(bytes);
  return true;
}

void CacheFolder::promise(uint64_t bytes) {
  pending_ += bytes, promised_ += bytes;
  reservation_->add(bytes);
}

/// Looks at the disk and makes room, without the lock, so that threads that find room can go on.
bool CacheFolder::look_for_room(std::unique_lock<std::mutex>& lock, uint64_t bytes,
                                const RangeCache& asker, std::optional<uint64_t> ahead) {
  constexpr double kPause = 0.1;  // seconds, at least, until it is worth while to look again
  evicting_ = true;
  const uint64_t added = added_;
  struct Done {
    CacheFolder& folder;
    ~Done() {
      folder.evicting_ = false;
      folder.evicted_.notify_all();
    }
  } const done{*this};
  const auto lacking = [&](uint64_t of_others) {
    // The bytes that other processes may add by fits() count as used.
    const uint64_t all = allowed_ / 64, theirs = all - all / processes_;
    const uint64_t wanted = used_ + pending_ + of_others + bytes + theirs;
    return wanted - std::min(wanted, allowed_);
  };
  try {
    lock.unlock();
    const FolderLock folder_lock(options_.folder);
    const double start = steady_seconds();
    const auto others = reservation_->others();
    const uint64_t now = used();
    lock.lock();
    processes_ = others.processes + 1, promised_ = 0;
    used_ = now + (added_ - added), allowed_ = allowed(now), added_ = 0;
    // If evicting all would not make the room, all stays.
    if (const uint64_t lack = lacking(others.bytes); lack > 0 && lack <= used_) {
      const uint64_t most = allowed_;
      lock.unlock();
      evict(lack + most / 16, most, asker, ahead);
      const uint64_t left = used();
      lock.lock();
      used_ = left + added_;
    }
    if (lacking(others.bytes) == 0) {
      promise(bytes);  // before another process has the folder
      return true;
    }
    const double end = steady_seconds();
    full_until_ = end + std::max(kPause, 10 * (end - start));
  } catch (const RunError&) {  // another process keeps the folder's lock
    if (!lock.owns_lock()) lock.lock();
    locked_until_ = steady_seconds() + kPatience;
  }
  return false;
}

void CacheFolder::disk_is_full() {
  const std::lock_guard guard(room_lock_);
  used_ = used();
  found_full_at_ = used_, allowed_ = std::min(allowed_, used_);
}

void CacheFolder::filled(uint64_t bytes) {
  const std::lock_guard guard(room_lock_);
  pending_ -= bytes;
  reservation_->subtract(bytes);
  used_ += bytes, added_ += bytes;
}

/// The caller holds the folder's lock.
void CacheFolder::evict(uint64_t bytes, uint64_t allowed, const RangeCache& asker,
                        std::optional<uint64_t> ahead) {
  uint64_t done = 0;
  auto all = objects();
  std::vector<std::pair<int64_t, const Known*>> idle;
  for (const Known& one : all)
    if (!one.own) idle.emplace_back(last_used(one.stem), &one);
  std::ranges::sort(idle);
  std::set<fs::path> gone;
  for (const auto& [time, one] : idle) {
    if (done >= bytes) return;
    if (!CachedObject::remove(one->stem)) continue;
    gone.insert(one->stem);
    done += one->bytes;
  }
  if (done >= bytes) return;
  std::erase_if(all, [&](const Known& one) { return gone.contains(one.stem); });

  /// One object, or all objects that orders name.
  struct Party {
    std::vector<const Known*> objects{};
    uint64_t bytes = 0, largest = 0;
    bool asks = false;
  };
  auto needs = needs_of_orders();
  std::vector<Party> parties(1);
  for (const Known& one : all) {
    const bool in_order = one.own && needs.contains(one.own.get());
    Party& party = in_order ? parties.front() : parties.emplace_back();
    party.objects.push_back(&one);
    party.bytes += one.bytes, party.largest = std::max(party.largest, one.bytes);
    party.asks |= one.own.get() == &asker;
  }
  const uint64_t share = all.empty() ? 0 : allowed / all.size();
  const auto has_share = [&](const Party& party) {
    return party.bytes >= share * party.objects.size();
  };
  const auto rank = [&](const Party& party) {  // the asker's before or behind all others
    if (!party.asks) return party.largest;
    return has_share(party) ? ~uint64_t{0} : uint64_t{0};
  };
  std::ranges::sort(parties, [&](const Party& a, const Party& b) { return rank(a) > rank(b); });
  for (const Party& party : parties) {
    if (done >= bytes) return;
    if (party.objects.empty()) continue;
    if (!party.objects.front()->own) {
      done += evict_any(party.objects.front()->stem, bytes - done);
      continue;
    }
    uint32_t least = 0;
    std::vector<Evictable> objects;
    for (const Known* one : party.objects) {
      const auto known = needs.find(one->own.get());
      objects.push_back(one->own->evictable(known == needs.end() ? no_needs(one->own->object())
                                                                 : std::move(known->second)));
      if (one->own.get() == &asker && ahead && objects.back().needs[*ahead] != kUnneeded)
        least = objects.back().needs[*ahead];
    }
    done += evict_blocks(objects, bytes - done, least);
    if (party.asks && ahead && has_share(party))
      return;  // others keep their blocks: the asker's are not needed yet
  }
}

std::shared_ptr<void> CacheFolder::follow(ReadOrder order) {
  const std::lock_guard guard(orders_lock_);
  const auto entry = orders_.insert(orders_.end(), std::move(order));
  return std::shared_ptr<void>(nullptr, [self = shared_from_this(), entry](std::nullptr_t) {
    const std::lock_guard lock(self->orders_lock_);
    self->orders_.erase(entry);
  });
}

CacheFolder::Needs CacheFolder::needs_of_orders() const {
  Needs needs;
  const std::lock_guard guard(orders_lock_);
  for (const ReadOrder& order : orders_)
    order([&](const RangeCache& object, uint64_t begin, uint64_t end, uint32_t after_samples) {
      const auto [entry, is_new] = needs.try_emplace(&object);
      if (is_new) entry->second = no_needs(object.object());
      note_need(object.object(), begin, end, after_samples, entry->second);
    });
  return needs;
}

}  // namespace composer

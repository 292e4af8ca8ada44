#include "base/remote/cached_object.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <tuple>

#include "base/error.h"
#include "base/files/atomic_file.h"
#include "base/remote/shared_disk.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

constexpr RangeLock::Range kUse{0, 1};
constexpr uint64_t kFirstBlock = 16;  ///< the lock's number of block 0

fs::path data_of(const fs::path& stem) { return stem.string() + ".data"; }
fs::path blocks_of(const fs::path& stem) { return stem.string() + ".blocks"; }

bool is_of(const fs::path& stem, const std::string& identity, const BlockBounds& bounds) {
  try {
    const BlockTable table(blocks_of(stem));
    std::error_code error;
    return table.identity() == identity && table.bounds() == bounds &&
           fs::is_regular_file(fs::symlink_status(data_of(stem), error)) &&
           fs::file_size(data_of(stem), error) == bounds.bytes && !error;
  } catch (const RunError&) {
    return false;
  }
}

/// Makes the files unless they are there. Returns `stem`.
const fs::path& made(const fs::path& stem, const std::string& identity, const BlockBounds& bounds) {
  if (is_of(stem, identity, bounds)) return stem;
  std::error_code missing;
  fs::remove(blocks_of(stem), missing);  // before the bytes that it lists
  fs::remove(data_of(stem), missing);
  const int file =
      ::open(data_of(stem).c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (file < 0) throw RunError(failure_text(data_of(stem), errno));
  const int problem = ::ftruncate(file, static_cast<off_t>(bounds.bytes)) == 0 ? 0 : errno;
  ::close(file);
  if (problem != 0) throw RunError(failure_text(data_of(stem), problem));
  BlockTable::create(blocks_of(stem), identity, bounds);
  return stem;
}

/// Tells a block's bytes from bytes that a loss of power left on the disk in their place. 16 bytes
/// a step in two chains; not for data that somebody means to forge.
uint32_t block_hash(std::span<const uint8_t> bytes) {
  constexpr uint64_t kOdd = 0x9E3779B97F4A7C15u;
  uint64_t a = bytes.size(), b = ~a;
  const auto mixed = [](uint64_t sum, uint64_t word) {
    return std::rotl((sum ^ word) * kOdd, 29) + word;
  };
  const uint8_t* at = bytes.data();
  size_t left = bytes.size();
  for (uint64_t words[2]; left >= sizeof words; left -= sizeof words, at += sizeof words) {
    std::memcpy(words, at, sizeof words);
    a = mixed(a, words[0]), b = mixed(b, words[1]);
  }
  uint64_t rest[2] = {};
  if (left > 0) std::memcpy(rest, at, left);
  a = mixed(mixed(a, rest[0]), b), a = mixed(a, rest[1]);
  return static_cast<uint32_t>((a ^ a >> 32) * kOdd >> 32);
}

/// Returns the number of bytes read: fewer at the file's end, or after an error.
size_t read_at(int file, uint64_t begin, std::span<uint8_t> into) {
  size_t done = 0;
  while (done < into.size()) {
    const ssize_t got =
        ::pread(file, into.data() + done, into.size() - done, static_cast<off_t>(begin + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

/// Returns 0 or errno.
int write_at(int file, uint64_t begin, std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(begin));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return errno;
    begin += static_cast<uint64_t>(put);
    bytes = bytes.subspan(static_cast<size_t>(put));
  }
  return 0;
}

using Blocks = CachedObject::Blocks;

struct NeededBlock {
  uint32_t need, object;
  uint64_t number;
};

/// The blocks that are there and needed after `least` samples; the block needed last comes first.
std::vector<NeededBlock> needed_last(std::span<const Evictable> objects, uint32_t least) {
  std::vector<NeededBlock> blocks;
  for (uint32_t i = 0; i < objects.size(); ++i) {
    const auto& [object, needs, claimed] = objects[i];
    if (!object->can_drop()) continue;
    for (uint64_t block = 0; block < needs.size(); ++block)
      if (BlockTable::is_there(object->table().entry(block)) && needs[block] > least)
        blocks.push_back({needs[block], i, block});
  }
  std::sort(blocks.begin(), blocks.end(), [](const NeededBlock& a, const NeededBlock& b) {
    return std::tie(b.need, a.object, a.number) < std::tie(a.need, b.object, b.number);
  });
  return blocks;
}

/// Returns the bytes of what was dropped.
uint64_t drop(const Evictable& from, const std::vector<uint64_t>& blocks) {
  CachedObject& object = *from.object;
  uint64_t bytes = 0;
  for (size_t i = 0; i < blocks.size();) {
    Blocks run{blocks[i], blocks[i] + 1};
    for (++i; i < blocks.size() && blocks[i] == run.end; ++i) ++run.end;
    while (run.count() > 0) {
      const uint64_t done = from.claimed(run, [&](const Blocks& part) {
        object.drop(part);
        bytes += object.bounds().end(part.end - 1) - object.bounds().begin(part.begin);
      });
      run.begin += std::max<uint64_t>(done, 1);
    }
  }
  return bytes;
}

}  // namespace

CachedObject::CachedObject(const fs::path& stem, const std::string& identity,
                           const BlockBounds& bounds)
    : CachedObject(made(stem, identity, bounds)) {}

CachedObject::CachedObject(const fs::path& stem)
    : stem_(stem),
      data_path_(data_of(stem)),
      table_(blocks_of(stem)),
      claims_(blocks_of(stem)),
      pins_(blocks_of(stem)) {
  open_data();
}

CachedObject::~CachedObject() {
  table_.use();
  ::close(data_);
}

void CachedObject::open_data() {
  data_ = ::open(data_path_.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC);
  if (data_ < 0) throw RunError(failure_text(data_path_, errno));
  over_network_ = is_shared_by_machines(data_path_);
  // A range behind the file's end: a test that changes nothing.
  can_drop_ = ::fallocate(data_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                          static_cast<off_t>((bounds().bytes + (1 << 20)) >> 12 << 12), 4096) == 0;
  if (can_drop_ && pins_.try_lock(RangeLock::Kind::exclusive, kUse)) free_unknown();
  pins_.try_lock(RangeLock::Kind::shared, kUse);
  table_.use();
}

bool CachedObject::remove(const fs::path& stem) {
  std::error_code error;
  if (fs::exists(blocks_of(stem), error)) {
    RangeLock use(blocks_of(stem));
    if (!use.try_lock(RangeLock::Kind::exclusive, kUse)) return false;
    fs::remove(blocks_of(stem), error);
  }
  fs::remove(data_of(stem), error);
  return true;
}

RangeLock::Range CachedObject::lock_of(const Blocks& blocks) {
  return {kFirstBlock + blocks.begin, kFirstBlock + blocks.end};
}

bool CachedObject::has(uint64_t block) {
  const auto entry = table_.entry(block);
  if (!BlockTable::is_there(entry)) return false;
  if (!table_.is_doubtful(entry)) return true;
  std::vector<uint8_t> bytes(bounds().end(block) - bounds().begin(block));
  const bool sound = read_at(data_, bounds().begin(block), bytes) == bytes.size() &&
                     block_hash(bytes) == BlockTable::hash(entry);
  table_.settle(block, entry, sound);
  return sound;
}

bool CachedObject::copy(uint64_t begin, std::span<uint8_t> into, const uint8_t* mapped) {
  thread_local std::vector<BlockTable::Entry> entries;
  entries.clear();
  const uint64_t first = bounds().at(begin), last = bounds().at(begin + into.size() - 1);
  for (uint64_t block = first; block <= last; ++block) {
    entries.push_back(table_.entry(block));
    if (!BlockTable::is_there(entries.back()) || table_.is_doubtful(entries.back())) return false;
  }
  if (mapped != nullptr) {
    std::memcpy(into.data(), mapped + begin, into.size());
  } else if (read_at(data_, begin, into) != into.size()) {
    return false;
  }
  std::atomic_thread_fence(std::memory_order_acquire);
  for (uint64_t block = first; block <= last; ++block)
    if (table_.entry(block) != entries[block - first]) return false;
  return true;
}

CachedObject::Blocks CachedObject::claim(const Blocks& wanted) {
  Blocks blocks = wanted;
  while (blocks.count() > 0) {
    if (claims_.try_lock(RangeLock::Kind::exclusive, lock_of(blocks))) return blocks;
    const auto other = claims_.in_the_way(lock_of(blocks));
    if (!other) continue;  // released meanwhile
    blocks.end = std::max(other->begin, lock_of(blocks).begin) - kFirstBlock;
  }
  return blocks;
}

int CachedObject::put(const Blocks& blocks, std::span<const uint8_t> bytes) {
  const uint64_t begin = bounds().begin(blocks.begin);
  if (const int error = write_at(data_, begin, bytes)) return error;
  if (over_network_ && ::fdatasync(data_) != 0) return errno;  // tells when the disk is full
  for (uint64_t block = blocks.begin; block < blocks.end; ++block)
    table_.set(block, block_hash(bytes.subspan(bounds().begin(block) - begin,
                                               bounds().end(block) - bounds().begin(block))));
  return 0;
}

void CachedObject::drop(const Blocks& blocks) {
  for (uint64_t block = blocks.begin; block < blocks.end; ++block) table_.clear(block);
  free_disk(blocks);
}

/// Frees the blocks' room, in whole units of the disk, up to the next block.
void CachedObject::free_disk(const Blocks& blocks) {
  constexpr uint64_t unit = BlockBounds::kAlignment;
  const uint64_t begin = bounds().begin(blocks.begin);
  const uint64_t end = (bounds().end(blocks.end - 1) + unit - 1) / unit * unit;
  if (end > begin)
    ::fallocate(data_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(begin),
                static_cast<off_t>(end - begin));
}

/// Frees the room of blocks without an entry, which killed processes left.
void CachedObject::free_unknown() {
  const uint64_t blocks = bounds().count();
  for (uint64_t block = 0; block < blocks;) {
    const off_t data = ::lseek(data_, static_cast<off_t>(bounds().begin(block)), SEEK_DATA);
    if (data < 0 || static_cast<uint64_t>(data) >= bounds().bytes) return;
    block = std::max(block, bounds().at(static_cast<uint64_t>(data)));
    Blocks run{block, block};
    while (run.end < blocks && !BlockTable::is_there(table_.entry(run.end))) ++run.end;
    if (run.count() > 0) free_disk(run);
    block = std::max(run.end, block + 1);
  }
}

bool CachedObject::pin(const Blocks& blocks) {
  if (!pins_.try_lock(RangeLock::Kind::shared, lock_of(blocks))) return false;
  bool all = true;
  for (uint64_t block = blocks.begin; block < blocks.end; ++block) {
    if (has(block)) continue;
    pins_.unlock(lock_of({block, block + 1}));  // other blocks stay pinned
    all = false;
  }
  return all;
}

BlockNeeds no_needs(const CachedObject& object) {
  return BlockNeeds(object.bounds().count(), kUnneeded);
}

void note_need(const CachedObject& object, uint64_t begin, uint64_t end, uint32_t after_samples,
               BlockNeeds& needs) {
  if (begin >= end) return;
  for (uint64_t block = object.bounds().at(begin); block <= object.bounds().at(end - 1); ++block)
    needs[block] = std::min(needs[block], after_samples);
}

uint64_t evict_blocks(std::span<const Evictable> objects, uint64_t bytes, uint32_t least) {
  const auto blocks = needed_last(objects, least);
  uint64_t done = 0;
  for (size_t next = 0; done < bytes && next < blocks.size();) {
    std::vector<std::vector<uint64_t>> numbers(objects.size());
    for (uint64_t sum = done; sum < bytes && next < blocks.size(); ++next) {
      const NeededBlock& block = blocks[next];
      const BlockBounds& bounds = objects[block.object].object->bounds();
      sum += bounds.end(block.number) - bounds.begin(block.number);
      numbers[block.object].push_back(block.number);
    }
    for (size_t i = 0; i < objects.size(); ++i) {
      std::sort(numbers[i].begin(), numbers[i].end());
      done += drop(objects[i], numbers[i]);
    }
  }
  return done;
}

uint64_t evict_any(const std::filesystem::path& stem, uint64_t bytes) {
  CachedObject object(stem);
  BlockNeeds needs(object.bounds().count());
  for (uint64_t block = 0; block < needs.size(); ++block)
    needs[block] = 1 + (static_cast<uint32_t>(block * 0x9E3779B97F4A7C15u >> 32) >> 1);
  const auto claimed = [&](const Blocks& wanted, const UseBlocks& use) {
    const Blocks blocks = object.claim(wanted);
    if (blocks.count() > 0) {
      use(blocks);
      object.release(blocks);
    }
    return blocks.count();
  };
  const std::vector<Evictable> one{{&object, std::move(needs), claimed}};
  return evict_blocks(one, bytes, 0);
}

}  // namespace composer

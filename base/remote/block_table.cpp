#include "base/remote/block_table.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <span>

#include "base/error.h"
#include "base/files/atomic_file.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

constexpr char kMagic[16] = "composer blocks";
constexpr uint64_t kGenerations = 0xFFFF;

}  // namespace

struct BlockTable::Header {
  char magic[16];
  uint64_t bytes, block_bytes, blocks;
  char start[40];  ///< the boot_id when the table was last opened
  uint64_t boot;   ///< the number of boots
  std::atomic<int64_t> last_used;
  std::atomic<uint64_t> cleared;
  char identity[4096];
};

uint64_t BlockBounds::count() const {
  return block_bytes == 0 ? begins.size() : (bytes + block_bytes - 1) / block_bytes;
}

uint64_t BlockBounds::begin(uint64_t block) const {
  return block_bytes == 0 ? begins[block] : block * block_bytes;
}

uint64_t BlockBounds::end(uint64_t block) const {
  if (block_bytes == 0) return ends[block];
  return block + 1 < count() ? begin(block + 1) : bytes;
}

void BlockBounds::add(uint64_t block_size) {
  begins.push_back((bytes + kAlignment - 1) / kAlignment * kAlignment);
  bytes = begins.back() + block_size;
  ends.push_back(bytes);
}

uint64_t BlockBounds::at(uint64_t byte) const {
  if (block_bytes != 0) return byte / block_bytes;
  return static_cast<uint64_t>(std::upper_bound(begins.begin(), begins.end(), byte) -
                               begins.begin() - 1);
}

void BlockTable::create(const fs::path& path, const std::string& identity,
                        const BlockBounds& bounds) {
  Header head{};
  std::memcpy(head.magic, kMagic, sizeof kMagic);
  head.bytes = bounds.bytes, head.block_bytes = bounds.block_bytes, head.blocks = bounds.count();
  if (identity.size() >= sizeof head.identity)
    throw RunError(path.string() + ": the object's name is too long");
  identity.copy(head.identity, identity.size());
  AtomicFile file(path);
  const auto write = [&](const auto& values) {
    file.write({reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof values[0]});
  };
  write(std::span(&head, 1));
  // Zeros are written: writing to the mapping must not meet a full disk.
  const std::vector<Entry> nothing(8192);
  for (uint64_t left = bounds.count(); left > 0;) {
    const auto part = std::span(nothing).first(std::min<uint64_t>(left, nothing.size()));
    write(part);
    left -= part.size();
  }
  write(bounds.begins), write(bounds.ends);
  write(std::span(nothing).first(1));  // never an empty table
  file.commit_to_disk();
}

BlockTable::BlockTable(const fs::path& path) {
  map(path);
  try {
    read_bounds(path);
  } catch (...) {
    ::munmap(memory_, size_);
    throw;
  }
  entries_ = reinterpret_cast<std::atomic<Entry>*>(static_cast<char*>(memory_) + sizeof(Header));
  static_assert(std::atomic<Entry>::is_always_lock_free);
  note_start_of_system();
}

BlockTable::~BlockTable() { ::munmap(memory_, size_); }

void BlockTable::map(const fs::path& path) {
  const auto fail = [&] { return RunError(failure_text(path, errno)); };
  const int file = ::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC);
  if (file < 0) throw fail();
  struct stat status {};
  ::fstat(file, &status);
  size_ = static_cast<size_t>(status.st_size);
  if (size_ > sizeof(Header))
    memory_ = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  if (size_ <= sizeof(Header)) throw RunError(path.string() + ": damaged");
  if (memory_ == MAP_FAILED) throw fail();
}

void BlockTable::read_bounds(const fs::path& path) {
  const Header& head = header();
  const uint64_t room = size_ - sizeof(Header), each = head.block_bytes == 0 ? 24 : 8;
  const bool sound = std::memcmp(head.magic, kMagic, sizeof kMagic) == 0 &&
                     head.blocks <= room / each &&
                     std::memchr(head.identity, 0, sizeof head.identity) != nullptr;
  if (!sound) throw RunError(path.string() + ": damaged");
  bounds_ = {.bytes = head.bytes, .block_bytes = head.block_bytes};
  if (head.block_bytes != 0) {
    if (bounds_.count() != head.blocks) throw RunError(path.string() + ": damaged");
    return;
  }
  const auto* const begins = reinterpret_cast<const uint64_t*>(
      static_cast<const char*>(memory_) + sizeof(Header) + head.blocks * sizeof(Entry));
  bounds_.begins.assign(begins, begins + head.blocks);
  bounds_.ends.assign(begins + head.blocks, begins + 2 * head.blocks);
  uint64_t end = 0;
  for (uint64_t block = 0; block < head.blocks; ++block) {
    const uint64_t begin = bounds_.begins[block];
    if (begin < end || bounds_.ends[block] < begin) throw RunError(path.string() + ": damaged");
    end = bounds_.ends[block];
  }
  if (end != head.bytes) throw RunError(path.string() + ": damaged");
}

void BlockTable::note_start_of_system() {
  Header& head = header();
  std::string start;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> start;
  if (std::string(head.start, ::strnlen(head.start, sizeof head.start)) != start) {
    head.boot = (head.boot + 1) & kBoots;
    std::memset(head.start, 0, sizeof head.start);
    start.copy(head.start, sizeof head.start - 1);
    ::msync(memory_, sizeof(Header), MS_SYNC);  // before any entry has the new number
  }
  boot_ = head.boot;
}

BlockTable::Header& BlockTable::header() const { return *static_cast<Header*>(memory_); }

std::string BlockTable::identity() const { return header().identity; }

void BlockTable::set(uint64_t block, uint32_t hash) {
  const Entry before = entries_[block].load(std::memory_order_relaxed);
  const uint64_t generation = before >> 32 & kGenerations;
  entries_[block].store(uint64_t{1} << 63 | boot_ << 48 | generation << 32 | hash,
                        std::memory_order_release);
}

void BlockTable::settle(uint64_t block, Entry entry, bool sound) {
  const uint64_t generation = entry >> 32 & kGenerations;
  const Entry settled =
      sound ? (entry & ~(kBoots << 48)) | boot_ << 48 : ((generation + 1) & kGenerations) << 32;
  entries_[block].compare_exchange_strong(entry, settled);
}

void BlockTable::clear(uint64_t block) {
  const uint64_t generation = entries_[block].load() >> 32 & kGenerations;
  entries_[block].store(((generation + 1) & kGenerations) << 32);
  header().cleared.fetch_add(1, std::memory_order_relaxed);
}

uint64_t BlockTable::cleared() const { return header().cleared.load(std::memory_order_relaxed); }

int64_t BlockTable::last_used() const { return header().last_used.load(std::memory_order_relaxed); }

void BlockTable::use() const {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  header().last_used.store(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count(),
                           std::memory_order_relaxed);
}

}  // namespace composer

#include "data/index_store.h"

#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "composer/error.h"
#include "composer/logging/log.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

constexpr char kMagic[16] = "composer index\n";

struct Header {
  char magic[16];
  FileStamp source;
  uint64_t entries;
  uint64_t table;  // where it begins
  uint64_t unused[2];
};
static_assert(sizeof(Header) == 64);

struct Row {
  uint64_t key;
  FileStamp stamp;
  uint64_t offset;
  uint32_t length;
  uint32_t crc;
};
static_assert(sizeof(Row) == 40);

uint32_t checksum(uint64_t key, const FileStamp& stamp, std::span<const uint8_t> index) {
  std::array<uint64_t, 3> head{key, stamp.bytes, static_cast<uint64_t>(stamp.time)};
  const uLong begin = crc32(0, reinterpret_cast<const Bytef*>(head.data()), sizeof head);
  if (index.empty()) return static_cast<uint32_t>(begin);  // zlib takes no null pointer
  return static_cast<uint32_t>(crc32(begin, index.data(), static_cast<uInt>(index.size())));
}

}  // namespace

FileStamp stamp_of(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    throw RunError(path.string() + ": " + std::strerror(errno));
  }
  return {static_cast<uint64_t>(status.st_size),
          status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec};
}

fs::path index_file_of(const fs::path& source) {
  if (fs::is_directory(source)) return source / ".composer-index";
  return source.string() + ".index";
}

IndexWriter::IndexWriter(const fs::path& file) : file_(file) { file_.write_at(sizeof(Header), {}); }

void IndexWriter::add(uint64_t key, std::span<const uint8_t> index, const FileStamp& stamp) {
  if (entries_ > 0 && key <= last_key_) throw std::logic_error("IndexWriter: keys must ascend");
  const Row row{key, stamp, file_.position(), static_cast<uint32_t>(index.size()),
                checksum(key, stamp, index)};
  file_.write(index);
  const auto* bytes = reinterpret_cast<const uint8_t*>(&row);
  table_.insert(table_.end(), bytes, bytes + sizeof row);
  last_key_ = key;
  ++entries_;
}

void IndexWriter::finish(const FileStamp& source) {
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.source = source, header.entries = entries_, header.table = file_.position();
  file_.write(table_);
  file_.write_at(0, {reinterpret_cast<const uint8_t*>(&header), sizeof header});
  file_.commit();
}

/// A side file that is whole and of the right source. Its rows are checked when they are used.
struct IndexStore::Table {
  MappedFile file;
  Header header{};

  explicit Table(const fs::path& path) : file(path) {
    if (file.bytes().size() >= sizeof header) {
      std::memcpy(&header, file.bytes().data(), sizeof header);
    }
  }
  bool valid_for(const FileStamp& source) const {
    return std::memcmp(header.magic, kMagic, sizeof kMagic) == 0 && header.source == source &&
           header.table <= file.bytes().size() &&
           header.entries == (file.bytes().size() - header.table) / sizeof(Row) &&
           header.entries * sizeof(Row) == file.bytes().size() - header.table;
  }
  Row row(uint64_t i) const {
    Row row;
    std::memcpy(&row, file.bytes().data() + header.table + i * sizeof row, sizeof row);
    return row;
  }
  /// Where the key stands, or would stand. A set that is written whole has key i at place i.
  uint64_t place(uint64_t key) const {
    if (key < header.entries && row(key).key == key) return key;
    uint64_t low = 0, high = header.entries;
    while (low < high) {
      const uint64_t middle = (low + high) / 2;
      (row(middle).key < key ? low : high) = row(middle).key < key ? middle + 1 : middle;
    }
    return low;
  }
  std::optional<std::span<const uint8_t>> index_of(const Row& row) const {
    if (row.offset > header.table || row.length > header.table - row.offset) return std::nullopt;
    const auto index = file.bytes().subspan(row.offset, row.length);
    if (checksum(row.key, row.stamp, index) != row.crc) return std::nullopt;
    return index;
  }
};

/// What was recorded for a sample; the index follows.
struct IndexStore::Entry {
  uint64_t key;
  FileStamp stamp;
  uint64_t length;

  std::span<const uint8_t> index() const {
    return {reinterpret_cast<const uint8_t*>(this + 1), static_cast<size_t>(length)};
  }
};

/// The side file as it was at some time, and what was recorded since.
struct IndexStore::Generation {
  std::unique_ptr<Table> table;  // null when there is none
  std::vector<std::atomic<const Entry*>> slots;
  std::atomic<int64_t> recorded{0};

  Generation(const fs::path& file, const FileStamp& source, int64_t samples)
      : slots(static_cast<size_t>(samples)) {
    std::error_code error;
    if (!fs::is_regular_file(file, error)) return;
    try {
      table = std::make_unique<Table>(file);
    } catch (const UserError&) {
      return;
    }
    if (!table->valid_for(source)) table.reset();
  }

  void add(int64_t sample, uint64_t key, const FileStamp& stamp, std::span<const uint8_t> index) {
    constexpr size_t kBlock = size_t{1} << 20;
    const size_t bytes =
        sizeof(Entry) + (index.size() + alignof(Entry) - 1) / alignof(Entry) * alignof(Entry);
    const std::lock_guard guard(lock_);
    if (used_ + bytes > size_) {
      size_ = std::max(kBlock, bytes), used_ = 0;
      blocks_.push_back(std::make_unique<uint8_t[]>(size_));
    }
    auto* entry = new (blocks_.back().get() + used_) Entry{key, stamp, index.size()};
    std::copy(index.begin(), index.end(), reinterpret_cast<uint8_t*>(entry + 1));
    used_ += bytes;
    slots[static_cast<size_t>(sample)].store(entry, std::memory_order_release);
    ++recorded;
  }

 private:
  std::mutex lock_;
  std::vector<std::unique_ptr<uint8_t[]>> blocks_;
  size_t used_ = 0, size_ = 0;  // of the last block
};

IndexStore::IndexStore(fs::path file, const FileStamp& source, int64_t samples)
    : file_(std::move(file)),
      source_(source),
      generation_(std::make_shared<Generation>(file_, source_, samples)) {
  std::error_code error;
  if (!generation_->table && fs::exists(file_, error)) {
    log::info(file_.string() + ": is of another version of the data, or damaged; it is made anew");
  }
}

IndexStore::~IndexStore() = default;

std::shared_ptr<IndexStore::Generation> IndexStore::current() const {
  const std::lock_guard guard(lock_);
  return generation_;
}

std::optional<StoredIndex> IndexStore::find(int64_t sample, uint64_t key,
                                            const FileStamp& stamp) const {
  auto now = current();
  const Entry* entry = now->slots[static_cast<size_t>(sample)].load(std::memory_order_acquire);
  if (entry != nullptr && entry->key == key && entry->stamp == stamp) {
    return StoredIndex{entry->index(), std::move(now)};
  }
  if (now->table == nullptr) return std::nullopt;
  const uint64_t place = now->table->place(key);
  if (place == now->table->header.entries) return std::nullopt;
  const Row row = now->table->row(place);
  if (row.key != key || row.stamp != stamp) return std::nullopt;
  const auto index = now->table->index_of(row);
  if (!index) return std::nullopt;
  return StoredIndex{*index, std::move(now)};
}

void IndexStore::record(int64_t sample, uint64_t key, std::span<const uint8_t> index,
                        const FileStamp& stamp) {
  current()->add(sample, key, stamp, index);
}

bool IndexStore::save() {
  const auto now = current();
  if (now->recorded == 0 || cannot_write_) return false;
  std::vector<const Entry*> fresh;
  for (const auto& slot : now->slots) {
    if (const Entry* entry = slot.load(std::memory_order_acquire)) fresh.push_back(entry);
  }
  std::sort(fresh.begin(), fresh.end(), [](auto* a, auto* b) { return a->key < b->key; });
  try {
    const Generation old(file_, source_, 0);  // another process may have added to it
    remove_partial_files(file_.parent_path());
    IndexWriter writer(file_);
    const uint64_t old_rows = old.table ? old.table->header.entries : 0;
    size_t next = 0;
    std::optional<uint64_t> before;
    for (uint64_t i = 0; i < old_rows || next < fresh.size();) {
      const Row row = i < old_rows ? old.table->row(i) : Row{};
      const auto kept = i < old_rows ? old.table->index_of(row) : std::nullopt;
      if (i < old_rows && (!kept || (before && row.key <= *before))) {  // damaged
        ++i;
        continue;
      }
      if (next < fresh.size() && (i == old_rows || fresh[next]->key <= row.key)) {
        const Entry* entry = fresh[next];
        if (i < old_rows && entry->key == row.key) ++i;
        while (next < fresh.size() && fresh[next]->key == entry->key) ++next;
        writer.add(entry->key, entry->index(), entry->stamp);
        before = entry->key;
      } else {
        writer.add(row.key, *kept, row.stamp);
        before = row.key;
        ++i;
      }
    }
    writer.finish(source_);
  } catch (const std::exception& error) {
    log::info("the crop index of the images stays in memory: " + std::string(error.what()));
    cannot_write_ = true;
    return false;
  }
  auto saved =
      std::make_shared<Generation>(file_, source_, static_cast<int64_t>(now->slots.size()));
  const std::lock_guard guard(lock_);
  if (saved->table) generation_ = std::move(saved);
  return true;
}

}  // namespace composer

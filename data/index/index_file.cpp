#include "data/index/index_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "base/error.h"
#include "base/text.h"
#include "data/files/file_lock.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

constexpr char kMagic[16] = "composer index\n";

struct Header {
  char magic[16];
  FileStamp source;
  uint64_t entries;
  uint64_t table;  // offset in the segment
  uint64_t unused[2];
};
static_assert(sizeof(Header) == 64);

template <class T>
std::span<const uint8_t> bytes_of(const T& value) {
  return {reinterpret_cast<const uint8_t*>(&value), sizeof value};
}

void append(std::vector<uint8_t>& to, std::span<const uint8_t> bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

uint32_t checksum(uint64_t key, const FileStamp& stamp, std::span<const uint8_t> index) {
  std::array<uint64_t, 3> head{key, stamp.bytes, static_cast<uint64_t>(stamp.time)};
  const uLong begin = crc32(0, reinterpret_cast<const Bytef*>(head.data()), sizeof head);
  if (index.empty()) return static_cast<uint32_t>(begin);  // zlib takes no null pointer
  return static_cast<uint32_t>(crc32(begin, index.data(), static_cast<uInt>(index.size())));
}

IndexRow row_of(uint64_t key, const FileStamp& stamp, std::span<const uint8_t> index,
                uint64_t offset) {
  return {key, stamp, offset, static_cast<uint32_t>(index.size()), checksum(key, stamp, index)};
}

Header header_of(const FileStamp& source, uint64_t entries, uint64_t table) {
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.source = source, header.entries = entries, header.table = table;
  return header;
}

/// Offsets in the file.
struct Segment {
  FileStamp source;
  uint64_t begin, table, entries;

  uint64_t end() const { return table + entries * sizeof(IndexRow); }

  /// The segment at this offset; nothing without a whole one.
  static std::optional<Segment> at(int file, uint64_t begin, uint64_t file_bytes) {
    Header header{};
    const uint64_t room = file_bytes - begin;
    if (room < sizeof header || !read_at(file, begin, &header, sizeof header)) return {};
    const bool fits = std::memcmp(header.magic, kMagic, sizeof kMagic) == 0 &&
                      header.table >= sizeof header && header.table <= room &&
                      header.entries <= (room - header.table) / sizeof(IndexRow);
    if (!fits) return {};
    return Segment{header.source, begin, begin + header.table, header.entries};
  }
};

/// Returns read(), and adds the file's name to its errors.
auto naming(const fs::path& path, auto&& read) {
  try {
    return read();
  } catch (const RunError& error) {
    throw RunError(path.string() + ": " + error.what());
  }
}

/// The end of the last whole segment. begin: the offset of a segment.
uint64_t end_of_segments(int file, uint64_t begin) {
  const uint64_t bytes = size_of(file);
  while (begin < bytes) {
    const auto whole = Segment::at(file, begin, bytes);
    if (!whole) break;
    begin = whole->end();
  }
  return begin;
}

std::vector<uint8_t> bytes_between(int file, uint64_t begin, uint64_t end) {
  std::vector<uint8_t> bytes(end - begin);
  if (!read_at(file, begin, bytes.data(), bytes.size())) throw RunError("was cut off");
  return bytes;
}

}  // namespace

FileStamp stamp_of(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0)
    throw RunError(path.string() + ": " + std::strerror(errno));
  return {static_cast<uint64_t>(status.st_size),
          status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec};
}

uint64_t key_of(std::string_view path) { return fnv1a(path); }

IndexWriter::IndexWriter(const fs::path& path) : file_(path) { file_.write(bytes_of(Header{})); }

void IndexWriter::add(uint64_t key, std::span<const uint8_t> index, const FileStamp& stamp) {
  if (entries_ > 0 && key <= last_key_) throw std::logic_error("IndexWriter: keys must ascend");
  append(table_, bytes_of(row_of(key, stamp, index, file_.position())));
  file_.write(index);
  last_key_ = key;
  ++entries_;
}

void IndexWriter::end_segment(const FileStamp& source) {
  const uint64_t table = file_.position();
  file_.write(table_);
  const uint64_t end = file_.position();
  file_.write_at(0, bytes_of(header_of(source, entries_, table)));
  file_.write_at(end, {});
}

void IndexWriter::finish(const FileStamp& source) {
  end_segment(source);
  file_.commit();
}

IndexTable::IndexTable(const fs::path& path, const FileStamp& source)
    : path_(path), file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (file_ < 0) return;
  try {
    const uint64_t bytes = size_of(file_);
    while (const auto segment = Segment::at(file_, end_, bytes)) {
      if (segment->source == source)
        read(segment->begin, segment->table, segment->entries);
      else
        dead_ += segment->entries;
      end_ = segment->end();
      ++segments_;
    }
    whole_ = end_ == bytes;
  } catch (const RunError& error) {
    rows_.clear(), large_.clear();
    whole_ = false;
    problem_ = error.what();
  }
  sort();
}

IndexTable::~IndexTable() {
  if (file_ >= 0) ::close(file_);
}

IndexRow IndexTable::MappedRows::row(uint64_t i) const {
  IndexRow row;
  std::memcpy(&row, bytes.data() + i * sizeof row, sizeof row);
  row.offset += segment;
  return row;
}

uint64_t IndexTable::MappedRows::key(uint64_t i) const {
  uint64_t key;
  std::memcpy(&key, bytes.data() + i * sizeof(IndexRow) + offsetof(IndexRow, key), sizeof key);
  return key;
}

std::optional<IndexRow> IndexTable::MappedRows::find(uint64_t wanted) const {
  // A set that was written whole has key i in row i.
  if (wanted < size() && key(wanted) == wanted) return row(wanted);
  uint64_t low = 0, high = size();
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (key(middle) < wanted)
      low = middle + 1;
    else
      high = middle;
  }
  if (low == size() || key(low) != wanted) return std::nullopt;
  return row(low);
}

/// Whether the table can stay in the mapped file: all of its rows are sound, and it has enough of
/// them.
bool IndexTable::map(uint64_t begin, uint64_t table, uint64_t entries) {
  constexpr uint64_t least = 4096;
  if (entries < least) return false;
  try {
    if (!mapping_) mapping_ = std::make_unique<const MappedFile>(path_, file_);
  } catch (const UserError&) {
    return false;
  }
  const auto file = mapping_->bytes();
  const uint64_t bytes = entries * sizeof(IndexRow), room = table - begin;
  if (table > file.size() || bytes > file.size() - table) return false;
  const MappedRows rows{file.subspan(table, bytes), begin};
  for (uint64_t i = 0; i < entries; ++i) {
    const IndexRow row = rows.row(i);
    const uint64_t offset = row.offset - begin;
    const bool ascends = i == 0 || row.key > rows.key(i - 1);
    if (!ascends || offset > room || row.length > room - offset) return false;
  }
  if (mapping_->lost(rows.bytes)) return false;
  large_.push_back(rows);
  return true;
}

void IndexTable::read(uint64_t begin, uint64_t table, uint64_t entries) {
  if (map(begin, table, entries)) return;
  const size_t before = rows_.size();
  rows_.resize(before + entries);
  if (!read_at(file_, table, rows_.data() + before, entries * sizeof(IndexRow)))
    rows_.resize(before);
  const uint64_t room = table - begin;
  const auto outside = [room](const IndexRow& row) {
    return row.offset > room || row.length > room - row.offset;
  };
  const auto good = rows_.begin() + static_cast<ptrdiff_t>(before);
  rows_.erase(std::remove_if(good, rows_.end(), outside), rows_.end());
  for (auto row = good; row != rows_.end(); ++row) row->offset += begin;
  dead_ += entries - (rows_.size() - before);
}

void IndexTable::sort() {
  const auto ascends = [](const IndexRow& a, const IndexRow& b) { return a.key < b.key; };
  auto all = rows_.size();
  if (!std::is_sorted(rows_.begin(), rows_.end(), ascends))
    std::stable_sort(rows_.begin(), rows_.end(), ascends);
  // In reverse order the first of equal keys is the one appended last.
  const auto same = [](const IndexRow& a, const IndexRow& b) { return a.key == b.key; };
  const auto kept = std::unique(rows_.rbegin(), rows_.rend(), same);
  rows_.erase(rows_.begin(), kept.base());
  rows_.shrink_to_fit();
  for (const auto& large : large_) all += large.size();
  if (large_.size() == 1 && rows_.empty())
    live_ = all;
  else
    for_each([this](const IndexRow&) { ++live_; });
  dead_ += all - live_;
}

void IndexTable::for_each(const std::function<void(const IndexRow& row)>& use) const {
  // The next row of each table; the last table is that of the small segments.
  std::vector<uint64_t> next(large_.size() + 1);
  const auto size = [&](size_t t) { return t < large_.size() ? large_[t].size() : rows_.size(); };
  const auto key = [&](size_t t) {
    return t < large_.size() ? large_[t].key(next[t]) : rows_[next[t]].key;
  };
  for (;;) {
    std::optional<uint64_t> least;
    for (size_t t = 0; t < next.size(); ++t)
      if (next[t] < size(t)) least = std::min(least.value_or(~uint64_t{0}), key(t));
    if (!least) return;
    std::optional<IndexRow> last;
    for (size_t t = 0; t < next.size(); ++t) {
      if (next[t] == size(t) || key(t) != *least) continue;
      const IndexRow row = t < large_.size() ? large_[t].row(next[t]) : rows_[next[t]];
      if (!last || row.offset > last->offset) last = row;
      ++next[t];
    }
    if (!last) return;  // the file was cut off meanwhile
    use(*last);
  }
}

StoredIndex IndexTable::find(uint64_t key, const FileStamp& stamp) const {
  auto row = rows_.begin() + static_cast<ptrdiff_t>(std::min<uint64_t>(key, rows_.size()));
  if (row == rows_.end() || row->key != key) {
    row = std::lower_bound(rows_.begin(), rows_.end(), key,
                           [](const IndexRow& one, uint64_t wanted) { return one.key < wanted; });
  }
  std::optional<IndexRow> found;
  if (row != rows_.end() && row->key == key) found = *row;
  for (auto large = large_.rbegin(); large != large_.rend(); ++large) {
    const auto other = large->find(key);
    if (!other) continue;
    if (!found || other->offset > found->offset) found = other;
    break;
  }
  if (!found || found->stamp != stamp) return nullptr;
  try {
    return index_of(*found);
  } catch (const RunError&) {
    return nullptr;
  }
}

StoredIndex IndexTable::index_of(const IndexRow& row) const {
  if (row.offset > end_ || row.length > end_ - row.offset) return nullptr;
  auto index = std::make_shared<std::vector<uint8_t>>(row.length);
  if (!read_at(file_, row.offset, index->data(), index->size())) return nullptr;
  if (checksum(row.key, row.stamp, *index) != row.crc) return nullptr;
  return index;
}

void append_indices(const fs::path& path, const FileStamp& source, const IndexEntries& entries) {
  std::vector<uint8_t> segment(sizeof(Header)), table;
  for (const auto& [key, entry] : entries) {
    append(table, bytes_of(row_of(key, entry.stamp, *entry.index, segment.size())));
    append(segment, *entry.index);
  }
  const Header header = header_of(source, entries.size(), segment.size());
  std::memcpy(segment.data(), &header, sizeof header);
  append(segment, table);

  LockedFile file(path);
  const uint64_t end = naming(path, [&] { return end_of_segments(file.number(), 0); });
  if (end < size_of(file.number())) file.cut(end);
  file.put(end, segment);
}

void replace_useless_index(const fs::path& path, const FileStamp& source, AtomicFile& file) {
  const LockedFile there(path);
  if (IndexTable(path, source).empty()) file.commit();
}

void compact_index(const fs::path& path, const FileStamp& source) {
  remove_partial_files(path.has_parent_path() ? path.parent_path() : ".");
  const IndexTable table(path, source);
  if (!table.problem_.empty()) throw RunError(path.string() + ": " + table.problem_);
  IndexWriter writer(path);
  uint64_t rows = 0, last = 0;
  table.for_each([&](const IndexRow& row) {
    if (rows++ > 0 && row.key <= last) throw RunError(path.string() + ": was cut off");
    last = row.key;
    const auto index = naming(path, [&] { return table.index_of(row); });
    if (index) writer.add(row.key, *index, row.stamp);
  });
  if (rows != table.live_) throw RunError(path.string() + ": was cut off");
  writer.end_segment(source);
  const LockedFile file(path);
  if (!same_file(file.number(), table.file_)) return;  // another process replaced it meanwhile
  writer.file_.write(naming(path, [&] {
    const uint64_t end = end_of_segments(file.number(), table.end_);
    return bytes_between(file.number(), table.end_, end);
  }));
  writer.file_.commit();
}

}  // namespace composer

#include "data/index_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include "composer/error.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

constexpr char kMagic[16] = "composer index\n";

struct Header {
  char magic[16];
  FileStamp source;
  uint64_t entries;
  uint64_t table;  // where it begins in the segment
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

/// Whether there were so many. Throws RunError with the reason when they cannot be read.
bool read_at(int file, uint64_t at, void* to, size_t bytes) {
  auto* out = static_cast<uint8_t*>(to);
  while (bytes > 0) {
    const ssize_t got = ::pread(file, out, bytes, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw RunError("cannot be read: " + std::string(std::strerror(errno)));
    if (got == 0) return false;
    out += got, at += static_cast<uint64_t>(got), bytes -= static_cast<size_t>(got);
  }
  return true;
}

uint64_t size_of(int file) {
  struct stat status {};
  return ::fstat(file, &status) == 0 && S_ISREG(status.st_mode)
             ? static_cast<uint64_t>(status.st_size)
             : 0;
}

/// Places in the file.
struct Segment {
  FileStamp source;
  uint64_t begin, table, entries;

  uint64_t end() const { return table + entries * sizeof(IndexRow); }

  /// Nothing when no whole segment begins there.
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

/// Returns read(), whose errors get the file's name.
auto naming(const fs::path& path, auto&& read) {
  try {
    return read();
  } catch (const RunError& error) {
    throw RunError(path.string() + ": " + error.what());
  }
}

/// Where the last whole segment ends, from the beginning of one on.
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

bool same_file(int a, int b) {
  struct stat one {
  }, other{};
  return ::fstat(a, &one) == 0 && ::fstat(b, &other) == 0 && one.st_ino == other.st_ino &&
         one.st_dev == other.st_dev;
}

/// A file that this process alone adds to, until it is closed.
class LockedFile {
 public:
  explicit LockedFile(const fs::path& path) : path_(path) {
    constexpr int most_renamings = 100;
    for (int tries = 0; tries == 0 || !has_the_name(); ++tries) {
      close();
      if (tries == most_renamings)
        throw RunError(path.string() + ": is replaced by others all the time");
      number_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
      if (number_ < 0) throw RunError(cannot_be_written(path, errno));
      lock();
    }
  }
  ~LockedFile() { close(); }
  LockedFile(const LockedFile&) = delete;
  LockedFile& operator=(const LockedFile&) = delete;

  int number() const { return number_; }

  /// `end` is where the file is cut when not all can be written.
  void put(uint64_t end, std::span<const uint8_t> bytes) {
    uint64_t at = end;
    while (!bytes.empty()) {
      const ssize_t done = ::pwrite(number_, bytes.data(), bytes.size(), static_cast<off_t>(at));
      if (done < 0 && errno == EINTR) continue;
      if (done <= 0) give_up(end, done < 0 ? errno : ENOSPC);
      bytes = bytes.subspan(static_cast<size_t>(done)), at += static_cast<uint64_t>(done);
    }
  }

  void cut(uint64_t end) {
    if (::ftruncate(number_, static_cast<off_t>(end)) != 0) {
      throw RunError(cannot_be_written(path_, errno));
    }
  }

 private:
  void lock() {
    constexpr std::chrono::milliseconds kMostWaiting(30'000), kPause(20);
    const auto until = std::chrono::steady_clock::now() + kMostWaiting;
    int error = 0;
    const auto held = [&] {
      error = ::flock(number_, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
      return error == EWOULDBLOCK || error == EINTR;
    };
    while (held() && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(kPause);
    if (error == 0) return;
    close();
    throw RunError(path_.string() + ": cannot be written: " +
                   (error == EWOULDBLOCK ? "another process has been writing it for half a minute"
                                         : std::strerror(error)));
  }

  /// Another process may have replaced the file before it was locked.
  bool has_the_name() const {
    struct stat here {
    }, there{};
    return ::fstat(number_, &here) == 0 && ::stat(path_.c_str(), &there) == 0 &&
           here.st_ino == there.st_ino && here.st_dev == there.st_dev;
  }

  [[noreturn]] void give_up(uint64_t end, int error) {
    // What cannot be cut off is no segment.
    [[maybe_unused]] const int done =
        end == 0 ? ::unlink(path_.c_str()) : ::ftruncate(number_, static_cast<off_t>(end));
    throw RunError(cannot_be_written(path_, error));
  }

  void close() {
    if (number_ >= 0) ::close(number_);
    number_ = -1;
  }

  fs::path path_;
  int number_ = -1;
};

}  // namespace

FileStamp stamp_of(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    throw RunError(path.string() + ": " + std::strerror(errno));
  }
  return {static_cast<uint64_t>(status.st_size),
          status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec};
}

uint64_t key_of(std::string_view path) {
  uint64_t value = 14695981039346656037u;
  for (const char c : path) value = (value ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return value;
}

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
    : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (file_ < 0) return;
  try {
    const uint64_t bytes = size_of(file_);
    while (const auto segment = Segment::at(file_, end_, bytes)) {
      if (segment->source == source) {
        read(segment->begin, segment->table, segment->entries);
      } else {
        dead_ += segment->entries;
      }
      end_ = segment->end();
      ++segments_;
    }
    whole_ = end_ == bytes;
  } catch (const RunError& error) {
    rows_.clear();
    whole_ = false;
    problem_ = error.what();
  }
  sort();
}

IndexTable::~IndexTable() {
  if (file_ >= 0) ::close(file_);
}

void IndexTable::read(uint64_t begin, uint64_t table, uint64_t entries) {
  const size_t before = rows_.size();
  rows_.resize(before + entries);
  if (!read_at(file_, table, rows_.data() + before, entries * sizeof(IndexRow))) {
    rows_.resize(before);
  }
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
  const auto all = rows_.size();
  if (!std::is_sorted(rows_.begin(), rows_.end(), ascends)) {
    std::stable_sort(rows_.begin(), rows_.end(), ascends);
  }
  // From behind, the first of equal ones is the last that was added.
  const auto same = [](const IndexRow& a, const IndexRow& b) { return a.key == b.key; };
  const auto kept = std::unique(rows_.rbegin(), rows_.rend(), same);
  rows_.erase(rows_.begin(), kept.base());
  rows_.shrink_to_fit();
  dead_ += all - rows_.size();
}

StoredIndex IndexTable::find(uint64_t key, const FileStamp& stamp) const {
  // A set that is written whole has key i at place i.
  auto row = rows_.begin() + static_cast<ptrdiff_t>(std::min<uint64_t>(key, rows_.size()));
  if (row == rows_.end() || row->key != key) {
    row = std::lower_bound(rows_.begin(), rows_.end(), key,
                           [](const IndexRow& one, uint64_t wanted) { return one.key < wanted; });
  }
  if (row == rows_.end() || row->key != key || row->stamp != stamp) return nullptr;
  try {
    return index_of(*row);
  } catch (const RunError&) {
    return nullptr;
  }
}

StoredIndex IndexTable::index_of(const IndexRow& row) const {
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
  for (const auto& row : table.rows_) {
    const auto index = naming(path, [&] { return table.index_of(row); });
    if (index) writer.add(row.key, *index, row.stamp);
  }
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

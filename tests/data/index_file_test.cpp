#include "data/index/index_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <chrono>
#include <thread>

#include "base/error.h"
#include "base/random.h"
#include "tests/base/largest_file.h"
#include "tests/data/index_bytes.h"
#include "tests/files.h"

namespace composer::index_file_test {

using namespace composer::test;
using Catch::Matchers::Contains;

namespace {

/// While it lives, reading fails in this thread after so many reads.
class FailingReads {
 public:
  explicit FailingReads(int good) { left = good; }
  ~FailingReads() { left = -1; }
  FailingReads(const FailingReads&) = delete;
  FailingReads& operator=(const FailingReads&) = delete;

  static bool fails() {
    if (left <= 0) return left == 0;
    --left;
    return false;
  }

 private:
  static inline thread_local int left = -1;  // below 0: all are good
};

}  // namespace

/// In place of the C library's.
extern "C" ssize_t pread(int file, void* to, size_t bytes, off_t at) {
  if (FailingReads::fails()) {
    errno = EIO;
    return -1;
  }
  return ::syscall(SYS_pread64, file, to, bytes, at);
}

namespace {

void write_fifty(const fs::path& file) {
  IndexWriter writer(file);
  for (uint64_t key = 0; key < 50; ++key) writer.add(key, bytes_for(key));
  writer.finish(kSource);
}

int keys_in(const IndexTable& table, uint64_t end, const FileStamp& stamp = {}) {
  int found = 0;
  for (uint64_t key = 0; key < end; ++key) found += has(table, key, stamp);
  return found;
}

}  // namespace

TEST_CASE("an index file grows by segments, of which the last counts", "[data]") {
  const TemporaryFolder folder;
  const fs::path file = folder / "index";
  CHECK(IndexTable(file, kSource).empty());
  append_indices(file, kSource, entries_for({90, 3}));
  append_indices(file, kSource, entries_for({41, 3}, {1, 2}));
  append_indices(file, {7, 7}, entries_for({5}));
  {
    const IndexTable table(file, kSource);
    CHECK(has(table, 90));
    CHECK(has(table, 41, {1, 2}));
    CHECK(has(table, 3, {1, 2}));
    CHECK_FALSE(table.find(3));
    CHECK_FALSE(table.find(5));
    CHECK_FALSE(table.compact());
  }
  compact_index(file, kSource);
  const IndexTable table(file, kSource);
  CHECK(table.compact());
  CHECK(has(table, 90));
  CHECK(has(table, 41, {1, 2}));
  CHECK(has(table, 3, {1, 2}));
  CHECK(IndexTable(file, {7, 7}).empty());
}

TEST_CASE("keys of a whole index file ascend", "[data]") {
  const TemporaryFolder folder;
  IndexWriter writer(folder / "index");
  writer.add(9, bytes_for(9));
  CHECK_THROWS(writer.add(9, bytes_for(9)));
}

TEST_CASE("an unfinished index file leaves nothing", "[data]") {
  const TemporaryFolder folder;
  { IndexWriter(folder / "index").add(1, bytes_for(1)); }
  CHECK(fs::is_empty(folder.path()));
}

TEST_CASE("processes that save at the same time lose nothing", "[data][slow]") {
  constexpr uint64_t kProcesses = 4, kEach = 40;
  const TemporaryFolder folder;
  const fs::path file = folder / "index";
  std::vector<pid_t> processes;
  for (uint64_t p = 0; p < kProcesses; ++p) {
    processes.push_back(fork());
    if (processes.back() != 0) continue;
    try {
      for (uint64_t i = 0; i < kEach; ++i) {
        append_indices(file, kSource, entries_for({i * kProcesses + p}));
        if (i % 10 == 9) compact_index(file, kSource);
      }
      _exit(0);
    } catch (...) {
      _exit(1);
    }
  }
  for (const pid_t process : processes) {
    int status = 0;
    waitpid(process, &status, 0);
    CHECK(status == 0);
  }
  CHECK(keys_in(IndexTable(file, kSource), kProcesses * kEach) == kProcesses * kEach);
  CHECK(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) == 1);
}

TEST_CASE("a torn segment is ignored, and cut off when the next is added", "[data]") {
  const TemporaryFolder folder;
  const std::string file = folder / "index";
  append_indices(file, kSource, entries_for({1, 2}));
  const std::string first = read_bytes(file);
  append_indices(file, kSource, entries_for({3, 4}));
  const std::string both = read_bytes(file);
  for (size_t size = first.size() + 1; size < both.size(); size += 13) {
    write_file(file, both.substr(0, size));
    {
      const IndexTable table(file, kSource);
      CHECK(has(table, 1));
      CHECK_FALSE(table.find(3));
      CHECK_FALSE(table.compact());
    }
    append_indices(file, kSource, entries_for({3, 4}));
    CHECK(read_bytes(file) == both);
  }
}

TEST_CASE("a damaged index file gives no wrong index", "[data][slow]") {
  const TemporaryFolder folder;
  const std::string file = folder / "index";
  write_fifty(file);
  append_indices(file, kSource, entries_for({20, 50, 51}));
  const std::string whole = read_bytes(file);
  const auto check = [&](const std::string& bytes) {
    write_file(file, bytes);
    const IndexTable table(file, kSource);
    for (uint64_t key = 0; key < 52; ++key) {
      const auto index = table.find(key);
      if (index) CHECK(*index == bytes_for(key));
    }
  };
  check(whole);
  for (size_t size = 0; size < whole.size(); size += 97) check(whole.substr(0, size));
  for (uint64_t round = 0; round < 500; ++round) {
    Random random(1, "test", 0, round);
    std::string bytes = whole;
    bytes[static_cast<size_t>(random.below(static_cast<int64_t>(bytes.size())))] ^=
        static_cast<char>(1 + random.below(255));
    check(bytes);
  }
}

TEST_CASE("an index file with damaged rows is mended", "[data]") {
  const TemporaryFolder folder;
  const std::string file = folder / "index";
  write_fifty(file);
  std::string bytes = read_bytes(file);
  bytes[bytes.size() - 40 * 30 + 7] = 1;  // the key of row 20, now very large
  write_file(file, bytes);
  CHECK(keys_in(IndexTable(file, kSource), 50) == 49);
  append_indices(file, kSource, entries_for({10, 20}));
  CHECK(keys_in(IndexTable(file, kSource), 50) == 50);
  compact_index(file, kSource);
  CHECK(keys_in(IndexTable(file, kSource), 50) == 50);
}

TEST_CASE("an index file may be cut, overwritten or removed while it is in use", "[data]") {
  const TemporaryFolder folder;
  const std::string file = folder / "index";
  write_fifty(file);
  const std::string whole = read_bytes(file);
  const IndexTable table(file, kSource);
  CHECK(keys_in(table, 50) == 50);
  fs::resize_file(file, 200);
  CHECK(keys_in(table, 50) < 50);
  { std::ofstream(file, std::ios::binary) << std::string(whole.size(), 'x'); }
  CHECK_FALSE(table.find(48));
  { std::ofstream(file, std::ios::binary) << whole; }
  CHECK(keys_in(table, 50) == 50);
  fs::remove(file);
  CHECK(keys_in(table, 50) == 50);
}

TEST_CASE("a full disk leaves an index file as it was", "[data]") {
  const TemporaryFolder folder;
  const std::string file = folder / "index";
  {
    const LargestFile limit(100);
    CHECK_THROWS_WITH(append_indices(file, kSource, entries_for({1, 2})),
                      Contains(file) && Contains("cannot be written"));
  }
  CHECK_FALSE(fs::exists(file));
  append_indices(file, kSource, entries_for({1, 2}));
  const std::string before = read_bytes(file);
  {
    const LargestFile limit(before.size() + 10);
    CHECK_THROWS_AS(append_indices(file, kSource, entries_for({3})), RunError);
  }
  CHECK(read_bytes(file) == before);
}

TEST_CASE("an index file that cannot be read is not cut off, and not compacted", "[data]") {
  const TemporaryFolder folder;
  const std::string file = folder / "index";
  write_fifty(file);
  append_indices(file, kSource, entries_for({3, 60}));
  const std::string before = read_bytes(file);
  for (int good_reads = 0; good_reads < 2; ++good_reads) {
    const FailingReads after(good_reads);
    CHECK_THROWS_WITH(append_indices(file, kSource, entries_for({61})),
                      Contains(file + ": cannot be read: ") && Contains("error"));
  }
  for (int good_reads = 0; good_reads < 20; ++good_reads) {
    const FailingReads after(good_reads);
    CHECK_THROWS_WITH(compact_index(file, kSource), Contains(file + ": cannot be read: "));
  }
  CHECK(read_bytes(file) == before);
  CHECK(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) == 1);
  const IndexTable table(file, kSource);
  {
    const FailingReads all(0);
    CHECK_FALSE(table.find(3));
    CHECK_FALSE(IndexTable(file, kSource).compact());
  }
  CHECK(has(table, 3));
}

TEST_CASE("an index file may be added to while it is compacted", "[data]") {
  const TemporaryFolder folder;
  const std::string file = folder / "index";
  write_fifty(file);
  append_indices(file, kSource, entries_for({3, 4}));
  append_indices(folder / "added", kSource, entries_for({50, 51}));
  const int other = ::open(file.c_str(), O_RDWR);
  REQUIRE(::flock(other, LOCK_EX) == 0);
  std::thread compacting([&] { compact_index(file, kSource); });
  const auto has_begun = [&] {
    return std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) == 3;
  };
  for (int i = 0; i < 500 && !has_begun(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  CHECK(has_begun());  // though another process writes
  std::ofstream(file, std::ios::binary | std::ios::app) << read_bytes(folder / "added");
  ::close(other);
  compacting.join();
  const IndexTable table(file, kSource);
  CHECK(keys_in(table, 52) == 52);
  CHECK_FALSE(table.wasteful());
  compact_index(file, kSource);
  CHECK(IndexTable(file, kSource).compact());
  CHECK(keys_in(IndexTable(file, kSource), 52) == 52);
}

TEST_CASE("an index file is compacted when most of it is of no use", "[data]") {
  const TemporaryFolder folder;
  const fs::path file = folder / "index";
  append_indices(file, kSource, entries_for({1, 2, 3}));
  append_indices(file, kSource, entries_for({1}));
  CHECK_FALSE(IndexTable(file, kSource).wasteful());
  for (int i = 0; i < 4; ++i) append_indices(file, kSource, entries_for({1}));
  CHECK(IndexTable(file, kSource).wasteful());
  CHECK(IndexTable(file, {5, 5}).wasteful());
}

namespace {

/// Adds a segment of `count` keys from `first` on, every second one, whose indices are `value`.
void append_many(const fs::path& file, uint64_t first, uint64_t count, uint8_t value) {
  IndexEntries entries;
  const auto index = std::make_shared<const std::vector<uint8_t>>(std::vector<uint8_t>{value});
  for (uint64_t i = 0; i < count; ++i) entries[first + 2 * i] = {{}, index};
  append_indices(file, kSource, entries);
}

int value_of(const IndexTable& table, uint64_t key) {
  const auto found = table.find(key);
  return found ? found->at(0) : -1;
}

int64_t own_kilobytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("RssAnon:")) return std::stoll(line.substr(8));
  return 0;
}

}  // namespace

TEST_CASE("of large segments too the last counts, and they are compacted", "[data]") {
  const TemporaryFolder folder;
  const std::string file = folder / "index";
  append_many(file, 0, 10'000, 1);
  append_many(file, 0, 10, 2);
  append_many(file, 5'000, 5'000, 3);
  append_many(file, 5'000, 5, 4);
  append_many(file, 1, 5'000, 5);
  const auto check = [&] {
    const IndexTable table(file, kSource);
    std::vector<int> values;
    for (const uint64_t key : {0u, 18u, 20u, 4998u, 5000u, 5008u, 5010u, 14998u, 15000u, 19998u,
                               20000u, 1u, 9999u, 10001u})
      values.push_back(value_of(table, key));
    CHECK(values == std::vector<int>{2, 2, 1, 1, 4, 4, 3, 3, 1, 1, -1, 5, 5, -1});
    CHECK_FALSE(table.wasteful());
    CHECK_FALSE(table.empty());
    return table.compact();
  };
  CHECK_FALSE(check());
  compact_index(file, kSource);
  CHECK(check());
  for (uint64_t i = 0; i < 4; ++i) append_many(file, 0, 10'000, 6);
  CHECK(IndexTable(file, kSource).wasteful());
}

TEST_CASE("a large index that is cut off or damaged gives no wrong index", "[data]") {
  const TemporaryFolder folder;
  const std::string file = folder / "index";
  append_many(file, 0, 5'000, 1);
  append_many(file, 0, 5'000, 2);
  const std::string whole = read_bytes(file);
  const IndexTable table(file, kSource);
  fs::resize_file(file, whole.size() / 2 + 5000);
  for (uint64_t key = 0; key < 10'000; key += 97) {
    const int value = value_of(table, key);
    CHECK((value == -1 || value == 1 || value == 2));
  }
  CHECK(value_of(IndexTable(file, kSource), 100) == 1);
  CHECK_NOTHROW(compact_index(file, kSource));

  for (uint64_t round = 0; round < 12; ++round) {
    Random random(2, "test", 0, round);
    std::string bytes = whole;
    bytes[static_cast<size_t>(random.below(static_cast<int64_t>(bytes.size())))] ^=
        static_cast<char>(1 + random.below(255));
    write_file(file, bytes);
    const IndexTable damaged(file, kSource);
    for (uint64_t key = 0; key < 10'000; key += 13) {
      const int value = value_of(damaged, key);
      CHECK((value == -1 || value == 1 || value == 2));
    }
    CHECK_NOTHROW(compact_index(file, kSource));
  }
}

TEST_CASE("a large index takes no memory of the process's own", "[data]") {
  const TemporaryFolder folder;
  constexpr uint64_t kKeys = 400'000;
  {
    IndexWriter writer(folder / "index");
    for (uint64_t key = 0; key < kKeys; ++key) writer.add(key, {});
    writer.finish(kSource);
  }
  const int64_t before = own_kilobytes();
  if (before == 0) {
    WARN("skipped: the system does not tell a process's own memory");
    return;
  }
  const IndexTable table(folder / "index", kSource);
  CHECK(table.find(kKeys - 1));
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  WARN("skipped: a sanitizer keeps memory of its own for what is read");
  return;
#endif
  CHECK(own_kilobytes() - before < static_cast<int64_t>(kKeys * sizeof(IndexRow) / 1024 / 4));
}

}  // namespace composer::index_file_test

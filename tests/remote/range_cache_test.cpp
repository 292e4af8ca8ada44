// What is kept of remote objects: exact, shared, bounded, and none the worse for a kill.
#include "base/remote/range_cache.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <fstream>
#include <latch>
#include <random>

#include "base/error.h"
#include "base/remote/cache_folder.h"
#include "base/remote/leaving.h"
#include "base/remote/listing.h"
#include "base/remote/locks.h"
#include "base/remote/shared_disk.h"
#include "tests/base/largest_file.h"
#include "tests/remote/fake_store.h"
#include "tests/temporary_folder.h"

namespace composer::range_cache_test {

using namespace composer::test;

namespace {

using Bytes = std::vector<uint8_t>;

constexpr uint64_t kBlock = 64 << 10;

/// A cache of an object of noise.
struct Fixture {
  explicit Fixture(size_t bytes = 40 * kBlock - 17, uint64_t limit = 0)
      : limit(limit), content(noise(bytes)) {
    store->set("a/set.beton", content);
  }

  std::shared_ptr<RangeCache> open(const std::string& key = "a/set.beton") {
    if (!folder)
      folder = std::make_shared<CacheFolder>(CacheOptions{.folder = disk.path(), .limit = limit});
    return folder->open(bytes_of(store, RemotePath("s3://bucket/" + key), *store->stat(key)));
  }
  /// An object of this content that is one block.
  std::shared_ptr<RangeCache> open_block(const Bytes& bytes) {
    store->set("p/block", bytes);
    return folder->open(bytes_of(store, "s3://bucket/p/", store->list("p/")));
  }
  /// As a later process finds it.
  void leave() { folder.reset(); }

  TemporaryFolder disk;
  uint64_t limit;
  Bytes content;
  std::shared_ptr<FakeStore> store = std::make_shared<FakeStore>();
  std::shared_ptr<CacheFolder> folder;
};

Bytes read(RangeCache& cache, uint64_t begin, uint64_t end) {
  Bytes bytes(end - begin);
  cache.read(begin, bytes);
  return bytes;
}

/// Whether random pieces, and then all, have the content's bytes.
bool reads_well(RangeCache& cache, const Bytes& content, uint64_t seed, int pieces = 60) {
  std::mt19937_64 random(seed);
  for (int i = 0; i < pieces; ++i) {
    const uint64_t begin = random() % content.size();
    const uint64_t end = std::min<uint64_t>(content.size(), begin + 1 + random() % (3 * kBlock));
    if (i % 3 == 0) cache.bring(begin, end);
    if (read(cache, begin, end) != Bytes(content.begin() + static_cast<ptrdiff_t>(begin),
                                         content.begin() + static_cast<ptrdiff_t>(end)))
      return false;
  }
  return read(cache, 0, content.size()) == content;
}

/// The same of three threads, which open the object.
bool threads_read_well(Fixture& f, uint64_t seed, int pieces) {
  const auto cache = f.open();
  std::atomic<bool> good = true;
  {
    std::vector<std::jthread> threads;
    for (uint64_t i = 0; i < 3; ++i)
      threads.emplace_back([&, i] {
        if (!reads_well(*cache, f.content, seed + i, pieces)) good = false;
      });
  }
  return good;
}

uint64_t bytes_below(const std::filesystem::path& folder) {
  return CacheFolder({.folder = folder}).used();
}

/// What the cache's file takes of the disk.
uint64_t bytes_on_disk(const RangeCache& cache) {
  struct stat status {};
  return ::stat(cache.file().c_str(), &status) == 0 ? static_cast<uint64_t>(status.st_blocks) * 512
                                                    : 0;
}

/// Numbers that processes share.
struct Shared {
  std::atomic<uint64_t>* const numbers = static_cast<std::atomic<uint64_t>*>(
      ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ~Shared() { ::munmap(numbers, 4096); }
};

/// Its exit status is 0 where `body` returns true.
pid_t in_a_process(const std::function<bool()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    bool good = false;
    try {
      good = body();
    } catch (...) {
    }
    ::_exit(good ? 0 : 1);
  }
  return child;
}

int status_of(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

}  // namespace

TEST_CASE("each byte of an object is fetched once, also for a later process", "[cache]") {
  Fixture f;
  {
    const auto cache = f.open();
    CHECK_FALSE(cache->is_whole());
    CHECK(read(*cache, 100, 300) == Bytes(f.content.begin() + 100, f.content.begin() + 300));
    CHECK(f.store->read_bytes == kBlock);
    CHECK(reads_well(*cache, f.content, 1));
    CHECK(cache->is_whole());
    CHECK(f.open() == cache);
  }
  CHECK(f.store->read_bytes == f.content.size());
  f.leave();
  const auto cache = f.open();
  CHECK(cache->is_whole());
  CHECK(reads_well(*cache, f.content, 2));
  CHECK(f.store->read_bytes == f.content.size());
}

TEST_CASE("neighbours come in one request, of 8 MiB at most", "[cache]") {
  Fixture f(20 << 20);
  std::atomic<uint64_t> longest = 0;
  f.store->before_read = [&](const std::string&, uint64_t, uint64_t bytes) {
    if (bytes > longest) longest = bytes;
  };
  const auto cache = f.open();
  cache->bring(0, f.content.size());
  CHECK(f.store->reads == 3);
  CHECK(longest == 8 << 20);
  CHECK(cache->is_whole());
}

TEST_CASE("threads that want the same bytes wait for one request", "[cache]") {
  Fixture f;
  f.store->before_read = [](const std::string&, uint64_t, uint64_t) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  const auto cache = f.open();
  std::atomic<int> good = 0;
  {
    std::vector<std::jthread> threads;
    for (uint64_t i = 0; i < 8; ++i)
      threads.emplace_back([&, i] { good += reads_well(*cache, f.content, i, 30) ? 1 : 0; });
  }
  CHECK(good == 8);
  CHECK(f.store->read_bytes == f.content.size());
}

TEST_CASE("processes share what one of them fetches", "[cache]") {
  Fixture f;
  const Shared fetched;
  f.store->before_read = [&](const std::string&, uint64_t, uint64_t bytes) {
    fetched.numbers[0] += bytes;
    std::this_thread::sleep_for(std::chrono::microseconds(300));
  };
  std::vector<pid_t> children;
  for (uint64_t i = 0; i < 3; ++i)
    children.push_back(in_a_process([&] { return threads_read_well(f, i * 3, 30); }));
  for (const pid_t child : children) CHECK(status_of(child) == 0);
  CHECK(fetched.numbers[0] == f.content.size());
}

TEST_CASE("a process that is killed at any time leaves a cache without a wrong byte", "[cache]") {
  Fixture f(24 * kBlock - 5, 14 * kBlock);
  const Shared shared;
  for (uint64_t round = 0; round < 24; ++round) {
    shared.numbers[0] = 0;
    const pid_t child = in_a_process([&] {
      f.store->before_read = [&](const std::string&, uint64_t, uint64_t) { ++shared.numbers[0]; };
      const auto cache = f.open();
      std::vector<std::jthread> threads;
      for (uint64_t j = 0; j < 3; ++j)
        threads.emplace_back([&, j] {
          for (uint64_t k = 0;; ++k) reads_well(*cache, f.content, round * 100 + j + k);
        });
      return true;
    });
    while (shared.numbers[0] < 2 + round * 3) std::this_thread::yield();
    ::kill(child, SIGKILL);
    CHECK(WIFSIGNALED(status_of(child)));
    const auto cache = f.open();
    CHECK(reads_well(*cache, f.content, round, 20));
    CHECK(f.folder->used() <= f.limit);
    f.leave();
  }
}

TEST_CASE("a process that stands still is waited for no longer than it is alive", "[cache]") {
  Fixture f(4 * kBlock);
  const Shared shared;
  const pid_t child = in_a_process([&] {
    f.store->before_read = [&](const std::string&, uint64_t, uint64_t) {
      shared.numbers[0] = 1;
      ::pause();
    };
    read(*f.open(), 0, kBlock);
    return true;
  });
  while (shared.numbers[0] == 0) std::this_thread::yield();
  const auto cache = f.open();
  cache->bring(0, kBlock);  // somebody else does that
  CHECK(f.store->reads == 0);
  std::jthread killer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ::kill(child, SIGKILL);
  });
  CHECK(read(*cache, 10, 20) == Bytes(f.content.begin() + 10, f.content.begin() + 20));
  status_of(child);
}

TEST_CASE("the limit is kept, and what is read stays right", "[cache]") {
  Fixture f(40 * kBlock, 13 * kBlock);
  const auto cache = f.open();
  std::atomic<int> good = 0;
  std::atomic<bool> above = false;
  {
    std::vector<std::jthread> threads;
    for (uint64_t i = 0; i < 4; ++i)
      threads.emplace_back([&, i] {
        good += reads_well(*cache, f.content, i, 100) ? 1 : 0;
        if (f.folder->used() > f.limit) above = true;
      });
  }
  CHECK(good == 4);
  CHECK_FALSE(above);
  CHECK(f.store->read_bytes > f.content.size());
  CHECK_FALSE(cache->is_whole());
}

TEST_CASE("a cache takes a nearly full disk's room, but for some", "[cache]") {
  constexpr uint64_t kGiB = 1 << 30, kMiB = 1 << 20;
  CHECK(room_on_disk(0, 500 * kGiB, 1000 * kGiB) == 499 * kGiB);
  CHECK(room_on_disk(30 * kGiB, 10 * kGiB, 1000 * kGiB) == 39 * kGiB);
  CHECK(room_on_disk(30 * kGiB, 0, 1000 * kGiB) == 30 * kGiB);
  CHECK(room_on_disk(0, 8 * kGiB, 10 * kGiB) == 8 * kGiB - kGiB / 2);
  CHECK(room_on_disk(0, 300 * kMiB, 1000 * kGiB) == 150 * kMiB);
}

TEST_CASE("what is needed last leaves first", "[cache]") {
  constexpr uint64_t kBlocks = 40;
  Fixture f(kBlocks * kBlock, 22 * kBlock);
  const auto cache = f.open();
  uint64_t position = 0;  // in rounds through the file
  const auto following = cache->follow([&](const Want& want) {
    for (uint64_t i = 0; i < kBlocks; ++i) {
      const uint64_t begin = (position + i) % kBlocks * kBlock;
      want(*cache, begin, begin + kBlock, static_cast<uint32_t>(i));
    }
  });
  for (; position < 4 * kBlocks; ++position) {
    const uint64_t begin = position % kBlocks * kBlock;
    REQUIRE(read(*cache, begin, begin + kBlock) ==
            Bytes(f.content.begin() + static_cast<ptrdiff_t>(begin),
                  f.content.begin() + static_cast<ptrdiff_t>(begin + kBlock)));
    CHECK(f.folder->used() <= f.limit);
  }
  // The oldest-first rule would fetch every block in each of the four rounds.
  const uint64_t fetched = f.store->read_bytes / kBlock;
  CHECK(fetched < kBlocks + 3 * (kBlocks - 18));
  CHECK(fetched > kBlocks + 3 * (kBlocks - 22) - 22);
}

TEST_CASE("what is not needed yet takes the place only of what is needed later", "[cache]") {
  Fixture f(40 * kBlock, 13 * kBlock);
  const auto cache = f.open();
  const auto following = cache->follow([&](const Want& want) {
    for (uint32_t i = 0; i < 40; ++i) want(*cache, i * kBlock, (i + 1) * kBlock, i);
  });
  cache->bring(30 * kBlock, 34 * kBlock);
  for (uint64_t i = 0; i < 30; ++i) cache->bring(i * kBlock, (i + 1) * kBlock);
  const uint64_t before = f.store->read_bytes;
  CHECK(before < 20 * kBlock);
  CHECK(read(*cache, 0, 6 * kBlock).size() == 6 * kBlock);  // the first ones have stayed
  CHECK(f.store->read_bytes == before);
}

TEST_CASE("what is needed last leaves first, whichever object it lies in", "[cache]") {
  Fixture f(8 * kBlock, 24 * kBlock);
  f.store->set("b", noise(12 * kBlock, 2));
  f.store->set("c", noise(8 * kBlock, 3));
  const auto a = f.open(), b = f.open("b"), c = f.open("c");
  const auto following = a->follow([&](const Want& want) {
    want(*b, 0, 12 * kBlock, 1);
    want(*c, 0, 8 * kBlock, 2);
    want(*a, 0, 8 * kBlock, 3);
  });
  read(*a, 0, 8 * kBlock);
  read(*b, 0, 12 * kBlock);
  read(*c, 0, 8 * kBlock);
  const uint64_t before = f.store->read_bytes;
  CHECK(before == 28 * kBlock);
  read(*b, 0, 12 * kBlock);
  read(*c, 0, 8 * kBlock);
  CHECK(f.store->read_bytes == before);
  CHECK(bytes_on_disk(*a) < 8 * kBlock);
  CHECK(f.folder->used() <= f.limit);
}

TEST_CASE("what is not needed yet leaves other objects what they need earlier", "[cache]") {
  Fixture f(10 * kBlock, 13 * kBlock);
  f.store->set("b", noise(10 * kBlock, 2));
  const auto a = f.open(), b = f.open("b");
  auto following = a->follow([&](const Want& want) {
    for (uint32_t i = 0; i < 10; ++i) {
      want(*a, i * kBlock, (i + 1) * kBlock, i);
      want(*b, i * kBlock, (i + 1) * kBlock, 100 + i);
    }
  });
  read(*a, 0, 10 * kBlock);
  for (uint64_t i = 0; i < 10; ++i) b->bring(i * kBlock, (i + 1) * kBlock);
  const uint64_t before = f.store->read_bytes;
  read(*a, 0, 10 * kBlock);
  CHECK(f.store->read_bytes == before);
  following.reset();  // then both share the room
  for (uint64_t i = 0; i < 10; ++i) read(*b, i * kBlock, (i + 1) * kBlock);
  CHECK(bytes_on_disk(*a) < 10 * kBlock);
}

TEST_CASE("where two objects share the room, unused ones leave first", "[cache]") {
  Fixture f(10 * kBlock, 27 * kBlock);
  f.store->set("b", noise(10 * kBlock, 2));
  f.store->set("c", noise(10 * kBlock, 3));
  const auto whole = [&](const char* key) { return f.open(key)->is_whole(); };
  read(*f.open("b"), 0, 10 * kBlock);
  read(*f.open("c"), 0, 10 * kBlock);
  CHECK(whole("b"));  // and is used later than c
  read(*f.open(), 0, 10 * kBlock);
  CHECK(whole("b"));
  CHECK_FALSE(whole("c"));
}

TEST_CASE("two objects that are in use share the room", "[cache]") {
  Fixture f(20 * kBlock, 21 * kBlock);
  f.store->set("b", noise(20 * kBlock, 2));
  const auto a = f.open(), b = f.open("b");
  read(*a, 0, 20 * kBlock);
  for (uint64_t i = 0; i < 20; ++i) read(*b, i * kBlock, (i + 1) * kBlock);
  CHECK(bytes_on_disk(*a) >= 4 * kBlock);
  CHECK(bytes_on_disk(*b) >= 4 * kBlock);
  CHECK(f.folder->used() <= f.limit);
}

TEST_CASE("pinned bytes stay, and are refused where there is no room", "[cache]") {
  Fixture f(40 * kBlock, 13 * kBlock);
  const auto cache = f.open();
  cache->pin(5 * kBlock + 3, 7 * kBlock - 3);
  cache->pin(5 * kBlock, 6 * kBlock);
  CHECK(reads_well(*cache, f.content, 1, 100));
  const uint64_t before = f.store->read_bytes;
  read(*cache, 5 * kBlock, 7 * kBlock);
  CHECK(f.store->read_bytes == before);
  try {
    cache->pin(0, 40 * kBlock);
    FAIL("pinned");
  } catch (const UserError& error) {
    CHECK_THAT(error.what(), Catch::StartsWith("remote.cache_limit: ") &&
                                 Catch::Contains("s3://bucket/a/set.beton"));
  }
}

TEST_CASE("pinned bytes keep no others from leaving in their place", "[cache]") {
  Fixture f(40 * kBlock, 16 * kBlock);
  const auto cache = f.open();
  cache->pin(0, 6 * kBlock);
  for (uint64_t i = 6; i < 30; ++i) read(*cache, i * kBlock, (i + 1) * kBlock);
  const uint64_t before = f.store->read_bytes;
  read(*cache, 0, 6 * kBlock);
  read(*cache, 29 * kBlock, 30 * kBlock);
  CHECK(f.store->read_bytes == before);
  CHECK(f.folder->used() <= f.limit);
}

TEST_CASE("a block that is larger than the limit takes nothing else's place", "[cache]") {
  Fixture f(10 * kBlock, 16 * kBlock);
  const auto cache = f.open();
  const auto bytes = noise(20 * kBlock, 2);
  const auto block = f.open_block(bytes);
  read(*cache, 0, 9 * kBlock);
  for (int i = 0; i < 2; ++i) {
    block->bring(0, kBlock);
    CHECK(read(*block, 5, 10) == Bytes(bytes.begin() + 5, bytes.begin() + 10));
  }
  CHECK(bytes_on_disk(*block) == 0);
  CHECK(cache->bring(9 * kBlock, 10 * kBlock));  // nor their time
  const uint64_t before = f.store->read_bytes;
  read(*cache, 0, 10 * kBlock);
  CHECK(f.store->read_bytes == before);
}

TEST_CASE("a block that the disk takes only in part leaves nothing there", "[cache]") {
  Fixture f;
  const auto cache = f.open();
  if (!cache->object().can_drop()) {
    WARN("skipped: the file system gives back no parts of files");
    return;
  }
  const auto bytes = noise(20 * kBlock, 2);
  const auto block = f.open_block(bytes);
  {
    const LargestFile largest(10 * kBlock);
    CHECK(read(*block, 5, 10) == Bytes(bytes.begin() + 5, bytes.begin() + 10));
  }
  CHECK(bytes_on_disk(*block) < kBlock);
  CHECK(reads_well(*block, bytes, 1));
}

TEST_CASE("without room at all every read goes to the store", "[cache]") {
  Fixture f(4 * kBlock, 1);
  const auto cache = f.open();
  CHECK(reads_well(*cache, f.content, 1));
  CHECK(bytes_on_disk(*cache) == 0);
}

TEST_CASE("blocks that a loss of power has spoilt are fetched again", "[cache]") {
  Fixture f;
  read(*f.open(), 0, f.content.size());
  f.leave();
  std::filesystem::path data, blocks;
  for (const auto& entry : std::filesystem::directory_iterator(f.disk.path())) {
    if (entry.path().extension() == ".data") data = entry.path();
    if (entry.path().extension() == ".blocks") blocks = entry.path();
  }
  {
    std::fstream table(blocks, std::ios::in | std::ios::out | std::ios::binary);
    table.seekp(40).write("another start", 13);
    std::fstream bytes(data, std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekp(3 * kBlock + 5).write("\0\0\0\0\0\0\0\0", 8);
    bytes.seekp(39 * kBlock + 5).write("\0\0\0\0\0\0\0\0", 8);
  }
  const uint64_t before = f.store->read_bytes;
  const auto cache = f.open();
  CHECK_FALSE(cache->is_whole());
  CHECK(reads_well(*cache, f.content, 1));
  CHECK(cache->is_whole());
  CHECK(f.store->read_bytes == before + 2 * kBlock - 17);
}

TEST_CASE("files that somebody has damaged or taken away are made anew", "[cache]") {
  for (const char* ending : {".data", ".blocks"})
    for (const bool remove : {false, true}) {
      Fixture f;
      read(*f.open(), 0, f.content.size());
      f.leave();
      for (const auto& entry : std::filesystem::directory_iterator(f.disk.path())) {
        if (entry.path().extension() != ending) continue;
        if (remove)
          std::filesystem::remove(entry.path());
        else
          std::filesystem::resize_file(entry.path(), 1000);
      }
      CHECK(reads_well(*f.open(), f.content, 1));
    }
}

TEST_CASE("links in the place of the cache's files are not followed", "[cache]") {
  const TemporaryFolder elsewhere;
  const auto target = elsewhere / "target";
  const auto content = [&] {
    std::ifstream in(target, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  SECTION("of an object's") {
    const std::string ending = GENERATE(".data", ".blocks");
    Fixture f;
    f.open();
    f.leave();
    std::filesystem::path link;
    for (const auto& entry : std::filesystem::directory_iterator(f.disk.path()))
      if (entry.path().extension() == ending) link = entry.path();
    std::filesystem::copy_file(link, target);
    std::filesystem::remove(link);
    std::filesystem::create_symlink(target, link);
    const auto before = content();
    CHECK(reads_well(*f.open(), f.content, 1));
    CHECK((content() == before));
  }
  SECTION("of the folder's own") {
    elsewhere.write("target", "x");
    Fixture f;
    std::filesystem::create_symlink(target, f.disk / ".pending");
    CHECK_THROWS_AS(f.open(), UserError);
    CHECK(content() == "x");
    std::filesystem::remove(f.disk / ".pending");
    std::filesystem::create_symlink(elsewhere / "none", f.disk / ".lock");
    CHECK_THROWS_AS(f.open(), UserError);
    CHECK_FALSE(std::filesystem::exists(elsewhere / "none"));
  }
}

TEST_CASE("a cache folder of another user is refused", "[cache]") {
  Fixture f;
  const auto& folder = f.disk.path();
  if (is_shared_by_machines(folder) ||
      ::chown(folder.c_str(), 12345, static_cast<gid_t>(-1)) != 0) {
    WARN("skipped: only root gives folders away, on a disk of this machine");
    return;
  }
  CHECK_THROWS_WITH(f.open(), "remote.cache_dir: " + f.disk.path().string() +
                                  ": belongs to another user (12345); name a folder of your own");
}

TEST_CASE("a store's failure is told, and the next try may succeed", "[cache]") {
  Fixture f;
  std::atomic<bool> fails = true;
  f.store->before_read = [&](const std::string& key, uint64_t, uint64_t) {
    if (fails) throw RunError(key + ": 503 Slow Down");
  };
  const auto cache = f.open();
  CHECK_NOTHROW(cache->bring(0, kBlock));
  CHECK_THROWS_AS(read(*cache, 0, 10), RemoteError);
  CHECK_THROWS_WITH(read(*cache, 0, 10), "a/set.beton: 503 Slow Down");
  fails = false;
  CHECK(reads_well(*cache, f.content, 1));
}

TEST_CASE("another version of an object has a cache of its own", "[cache]") {
  Fixture f;
  read(*f.open(), 0, f.content.size());
  const auto other = noise(f.content.size(), 5);
  {
    const auto before = f.open();
    f.store->set("a/set.beton", other, "\"2\"");
    CHECK(read(*before, 0, 10) == Bytes(f.content.begin(), f.content.begin() + 10));
    CHECK(reads_well(*f.open(), other, 1));
  }
  f.leave();
  const auto cache = f.open();
  CHECK(cache->is_whole());
  CHECK(f.folder->used() < f.content.size() * 3 / 2);  // the first version's is gone
}

TEST_CASE("many small objects lie in one file, each a block", "[cache]") {
  TemporaryFolder disk;
  const auto store = std::make_shared<FakeStore>();
  std::vector<Bytes> contents;
  for (size_t i = 0; i < 50; ++i) {
    contents.push_back(noise(i * i * 37 % 30'000, i + 1));
    store->set("p/" + std::to_string(100 + i), contents.back(), "\"" + std::to_string(i) + "\"");
  }
  const auto objects = store->list("p/");
  const auto folder = std::make_shared<CacheFolder>(CacheOptions{.folder = disk.path()});
  const auto remote = bytes_of(store, "s3://bucket/p/", objects);
  const auto bounds = remote.bounds;
  for (int pass = 0; pass < 2; ++pass) {
    const auto cache = folder->open(bytes_of(store, "s3://bucket/p/", objects));
    for (uint64_t i = 50; i-- > 0;)
      CHECK(read(*cache, bounds.begin(i), bounds.end(i)) == contents[i]);
    CHECK(store->reads == 49);  // one has no bytes
    const uint64_t before = bytes_on_disk(*cache);
    const std::vector<Evictable> whole{cache->evictable(no_needs(cache->object()))};
    CHECK(evict_blocks(whole, 60'000, 0) >= 60'000);
    CHECK(bytes_on_disk(*cache) <= before - 60'000);
    for (uint64_t i = 0; i < 50; ++i)
      CHECK(read(*cache, bounds.begin(i), bounds.end(i)) == contents[i]);
    store->reads = 49;
  }
  CHECK(bytes_below(disk.path()) > 0);
}

TEST_CASE("who waits for another's request gets what came of it", "[cache]") {
  Fixture f;
  const auto cache = f.open();
  std::latch asked(1), waiting(1);
  std::atomic<int> requests = 0;
  f.store->before_read = [&](const std::string& key, uint64_t, uint64_t) {
    ++requests;
    if (requests == 1) asked.count_down();
    waiting.wait();
    std::this_thread::sleep_for(std::chrono::seconds(1));
    throw UserError("s3://bucket/" + key + ": 403 AccessDenied");
  };
  const auto problem = [&] {
    try {
      read(*cache, 0, 10);
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  std::string first, second;
  {
    const std::jthread claimer([&] { first = problem(); });
    asked.wait();
    const std::jthread waiter([&] {
      waiting.count_down();
      second = problem();
    });
  }
  CHECK(first == "s3://bucket/a/set.beton: 403 AccessDenied");
  CHECK(second == first);
  CHECK(requests == 1);
}

TEST_CASE("who waits for another's request leaves when it is to", "[cache]") {
  Fixture f;
  const auto cache = f.open();
  std::latch asked(1), left(1);
  f.store->before_read = [&](const std::string&, uint64_t, uint64_t) {
    if (LeaveWhen::asked()) throw RunError("nobody waits");
    asked.count_down();
    left.wait();
  };
  const std::jthread claimer([&] { read(*cache, 0, 10); });
  asked.wait();
  {
    const std::atomic<bool> leaving = true;
    const LeaveWhen here(leaving);
    CHECK_THROWS_AS(read(*cache, 0, 10), RemoteError);
  }
  left.count_down();
}

TEST_CASE("objects that only their addresses' queries tell apart are kept apart", "[cache]") {
  Fixture f;
  const auto other = noise(f.content.size(), 7);
  f.store->set("a?b=2", other);
  f.store->set("a?b=1", f.content);
  const auto open = [&](const std::string& query) {
    return f.folder->open(bytes_of(f.store, RemotePath("https://host/a" + query),
                                   *f.store->stat("a" + query.substr(0, 4))));
  };
  f.open();
  const auto first = open("?b=1"), second = open("?b=2");
  CHECK(reads_well(*first, f.content, 1));
  CHECK(reads_well(*second, other, 1));
  CHECK(open("?b=2&X-Amz-Signature=3") == second);  // signed anew
  CHECK(first->name() == "https://host/a");
}

TEST_CASE("an object in use whose address was signed anew is asked for by that", "[cache]") {
  Fixture f;
  f.open();
  const auto open = [&](const std::string& signature) {
    f.store->set("a?sig=" + signature, f.content);
    return f.folder->open(bytes_of(f.store, RemotePath("https://host/a?sig=" + signature),
                                   *f.store->stat("a?sig=" + signature)));
  };
  const auto first = open("1"), second = open("2");
  CHECK(first == second);
  f.store->before_read = [](const std::string& key, uint64_t, uint64_t) {
    if (key == "a?sig=1") throw UserError("403: the signature has expired");
  };
  CHECK(reads_well(*first, f.content, 1));
}

TEST_CASE("an object in use is asked for by the address before where a store refuses the newest",
          "[cache]") {
  Fixture f;
  f.open();
  const auto open = [&](const std::string& signature) {
    f.store->set("a?sig=" + signature, f.content);
    return f.folder->open(bytes_of(f.store, RemotePath("https://host/a?sig=" + signature),
                                   *f.store->stat("a?sig=" + signature)));
  };
  const auto cache = open("lasts");
  CHECK(open("expired") == cache);
  std::atomic<int> refused = 0;
  std::atomic<bool> all = false;
  f.store->before_read = [&](const std::string& key, uint64_t, uint64_t) {
    if (key == "a?sig=lasts" && !all) return;
    ++refused;
    throw UserError("403 for " + key);
  };
  CHECK(reads_well(*cache, f.content, 1));
  CHECK(refused == 1);  // from then on the other one is asked by first
  all = true;
  const auto fresh = f.folder->open(
      bytes_of(f.store, RemotePath("https://host/b?sig=expired"), *f.store->stat("a?sig=expired")));
  CHECK_THROWS_WITH(read(*fresh, 0, 10), "403 for a?sig=expired");
}

TEST_CASE("bytes that came and are wrong are not asked for by another address", "[cache]") {
  Fixture f;
  f.open();
  int asked = 0;
  const auto open = [&] {
    return f.folder->open(RemoteBytes{.name = "https://host/wrong",
                                      .version = "1",
                                      .bounds = {.bytes = 10, .block_bytes = 10},
                                      .fetch =
                                          [&](uint64_t, std::span<uint8_t>) {
                                            ++asked;
                                            throw WrongBytes("damaged");
                                          },
                                      .failure = nullptr,
                                      .may_expire = true});
  };
  const auto cache = open();
  CHECK(open() == cache);
  CHECK_THROWS_WITH(read(*cache, 0, 10), "damaged");
  CHECK(asked == 1);
}

TEST_CASE("descriptions of objects are not kept longer than they are asked by", "[cache]") {
  Fixture f;
  f.open();
  const auto held = std::make_shared<int>(0);
  const auto described = [&](bool may_expire, const std::string& name) {
    return RemoteBytes{.name = name,
                       .version = "1",
                       .bounds = {.bytes = 10, .block_bytes = 10},
                       .fetch = [held](uint64_t, std::span<uint8_t>) {},
                       .failure = nullptr,
                       .may_expire = may_expire};
  };
  const auto plain = f.folder->open(described(false, "s3://bucket/plain"));
  const auto signed_one = f.folder->open(described(true, "https://host/signed"));
  for (int i = 0; i < 3; ++i) {
    f.folder->open(described(false, "s3://bucket/plain"));
    f.folder->open(described(true, "https://host/signed"));
  }
  CHECK(held.use_count() == 1 + 1 + 2);
}

TEST_CASE("processes together keep the limit", "[cache]") {
  Fixture f(40 * kBlock, 16 * kBlock);
  f.store->before_read = [](const std::string&, uint64_t, uint64_t) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  };
  const Shared ended;
  std::vector<pid_t> children;
  for (uint64_t i = 0; i < 4; ++i)
    children.push_back(in_a_process([&] {
      const bool good = threads_read_well(f, i * 3, 40);
      ++ended.numbers[0];
      return good;
    }));
  uint64_t most = 0;
  while (ended.numbers[0] < 4) most = std::max(most, bytes_below(f.disk.path()));
  for (const pid_t child : children) CHECK(status_of(child) == 0);
  CHECK(most <= f.limit);
}

TEST_CASE("what a process that was killed was about to add does not count", "[cache]") {
  TemporaryFolder disk;
  const auto file = disk / "pending";
  Reservation own(file);
  const Shared shared;
  const pid_t child = in_a_process([&] {
    Reservation room(file);
    room.add(1000);
    shared.numbers[0] = 1;
    ::pause();
    return true;
  });
  while (shared.numbers[0] == 0) std::this_thread::yield();
  own.add(7);
  CHECK(own.others().processes == 1);
  CHECK(own.others().bytes == 1000);
  ::kill(child, SIGKILL);
  status_of(child);
  CHECK(own.others().processes == 0);
  Reservation next(file);  // where the other was
  CHECK(next.others().bytes == 7);
  CHECK(own.others().bytes == 0);
}

TEST_CASE("objects that only their queries tell apart have versions of their own", "[remote]") {
  Fixture f;
  f.open();  // makes the folder
  const auto open = [&](const std::string& path) {
    return f.folder->open(bytes_of(f.store, RemotePath(path), *f.store->stat("a/set.beton")));
  };
  const auto first = open("https://host/get?id=1&token=a"), second = open("https://host/get?id=2");
  const auto versions = versions_in_use();
  CHECK(std::ranges::count_if(versions, [](const auto& one) {
          return one.first.starts_with("https://host/get");
        }) == 2);
}

TEST_CASE("a list whose lock cannot be had is refused", "[cache]") {
  Fixture f;
  f.open();
  const RemotePath path("s3://bucket/a");
  const auto lock = f.disk / (cache_name(path.identity()) + ".listing.lock");
  std::filesystem::create_directory(lock);
  CHECK_THROWS_WITH(list_files(f.store, path, *f.folder),
                    "remote.cache_dir: " + lock.string() + ": cannot be locked: Is a directory");
  std::filesystem::remove(lock);
  CHECK(list_files(f.store, path, *f.folder).files.size() == 1);
}

TEST_CASE("many objects are opened after one look at the folder", "[remote]") {
  Fixture f;
  const auto first = f.open();
  const int watch = ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  if (watch < 0) {
    WARN("skipped: the system gives no inotify instance");
    return;
  }
  REQUIRE(::inotify_add_watch(watch, f.disk.path().c_str(), IN_ACCESS | IN_ONLYDIR) >= 0);
  std::vector<std::shared_ptr<RangeCache>> others;
  for (int i = 0; i < 20; ++i) {
    const std::string key = "a/" + std::to_string(i);
    f.store->set(key, f.content);
    others.push_back(f.open(key));
  }
  std::vector<char> bytes(1 << 16);
  const ssize_t got = ::read(watch, bytes.data(), bytes.size());
  ::close(watch);
  int looks = 0;
  for (ssize_t at = 0; at < got;) {
    inotify_event event;
    std::memcpy(&event, bytes.data() + at, sizeof event);
    if ((event.mask & IN_ISDIR) != 0 && event.len == 0) ++looks;
    at += static_cast<ssize_t>(sizeof event + event.len);
  }
  CHECK(looks == 0);
}

}  // namespace composer::range_cache_test

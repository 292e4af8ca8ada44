#include "data/index/index_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "base/error.h"
#include "data/samples/source.h"
#include "tests/data/errors.h"
#include "tests/data/index_bytes.h"
#include "tests/files.h"

namespace composer::index_store_test {

using namespace composer::test;
using Catch::Matchers::Contains;

namespace {

void record(IndexStore& store, const std::vector<uint64_t>& keys, const FileStamp& stamp = {}) {
  for (const uint64_t key : keys) store.record(key, bytes_for(key), stamp);
}

}  // namespace

TEST_CASE("recorded indices are found at once, and again from the file", "[data]") {
  const TemporaryFolder folder;
  const fs::path file = folder / "a.beton.index";
  {
    IndexStore store(file, kSource);
    CHECK_FALSE(store.find(3));
    store.flush();
    CHECK_FALSE(fs::exists(file));
    record(store, {90, 3, 41});
    CHECK(has(store, 3));
    store.flush();
    CHECK(has(store, 3));
    CHECK(has(IndexTable(file, kSource), 3));
  }
  {
    IndexStore store(file, kSource);
    for (const uint64_t key : {90u, 3u, 41u}) CHECK(has(store, key));
    CHECK_FALSE(store.find(4));
    record(store, {4, 90});
    store.save();
  }
  const IndexStore store(file, kSource);
  for (const uint64_t key : {90u, 3u, 41u, 4u}) CHECK(has(store, key));
  CHECK(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) == 1);
}

TEST_CASE("an index counts only for the version of the file it was made of", "[data]") {
  const TemporaryFolder folder;
  const fs::path file = folder / "index";
  IndexStore store(file, {});
  record(store, {77}, {10, 20});
  for (int round = 0; round < 2; ++round) {
    CHECK(has(store, 77, {10, 20}));
    CHECK_FALSE(store.find(77, {11, 20}));
    CHECK_FALSE(store.find(77, {10, 21}));
    CHECK_FALSE(store.find(78, {10, 20}));
    store.flush();
  }
  record(store, {77}, {11, 20});
  store.flush();
  CHECK(has(store, 77, {11, 20}));
  CHECK_FALSE(store.find(77, {10, 20}));
  CHECK_FALSE(IndexStore(file, {5, 6}).find(77, {11, 20}));
}

TEST_CASE("a stream's slot finds its index, and says whether one is to be made", "[data]") {
  const TemporaryFolder folder;
  const FileStamp stamp{70, 1};
  IndexStore store(folder / "index", kSource);
  record(store, {3}, stamp);
  store.record(5, {});
  const auto used = [&](IndexSlot slot) {
    slot.use(store);
    return slot;
  };
  CHECK_FALSE(IndexSlot(3, stamp).records());
  CHECK_FALSE(used({}).records());
  CHECK(std::ranges::equal(used(IndexSlot(3, stamp)).index(), bytes_for(3)));
  CHECK(used(IndexSlot(3, stamp)).records());  // it may be another stream's
  CHECK(used(IndexSlot(3)).index().empty());
  CHECK_FALSE(used(IndexSlot(5)).records());
  const IndexSlot unknown = used(IndexSlot(4, stamp));
  CHECK(unknown.index().empty());
  REQUIRE(unknown.records());
  unknown.record(bytes_for(4));
  CHECK(store.find(4, stamp));
  CHECK_FALSE(store.find(4));

  store.flush();
  IndexSlot in_table(4, stamp);
  in_table.use(IndexTable(folder / "index", kSource));
  CHECK(std::ranges::equal(in_table.index(), bytes_for(4)));
  CHECK_FALSE(in_table.records());
}

TEST_CASE("a second file is read and left alone", "[data]") {
  const TemporaryFolder folder;
  const std::string beside = folder / "beside";
  append_indices(beside, {}, entries_for({1, 2}));
  const std::string before = read_bytes(beside);
  const fs::path file = folder / "deep/in/the/cache";
  {
    IndexStore store(file, {}, beside);
    CHECK(has(store, 1));
    store.record(2, bytes_for(9));
    record(store, {3});
    store.save();
  }
  CHECK(read_bytes(beside) == before);
  const IndexStore store(file, {}, beside);
  CHECK(has(store, 1));
  CHECK(*store.find(2) == bytes_for(9));
  CHECK(has(store, 3));
  CHECK_FALSE(IndexTable(file, {}).find(1));
}

TEST_CASE("saving waits for no disk", "[data]") {
  const TemporaryFolder folder;
  const fs::path file = folder / "index";
  append_indices(file, kSource, entries_for({1}));
  const int holder = ::open(file.c_str(), O_RDWR);
  REQUIRE(::flock(holder, LOCK_EX) == 0);
  IndexStore store(file, kSource);
  record(store, {2});
  const auto begin = std::chrono::steady_clock::now();
  store.save();
  CHECK(has(store, 2));
  record(store, {3});
  store.save();
  CHECK(has(store, 3));
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(5));
  CHECK_FALSE(IndexTable(file, kSource).find(2));
  ::close(holder);
  store.flush();
  const IndexTable table(file, kSource);
  for (const uint64_t key : {1u, 2u, 3u}) CHECK(has(table, key));
}

TEST_CASE("a folder that cannot be written keeps the indices in memory, and is told of once",
          "[data]") {
  const TemporaryFolder folder;
  Errors errors(folder / "errors");
  {
    IndexStore store(folder / "missing/index", {});
    for (uint64_t key = 1; key < 4; ++key) {
      record(store, {key});
      store.save();
      for (int i = 0; i < 20; ++i) {  // for the writer
        CHECK(has(store, key));
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    }
    CHECK_THROWS_WITH(store.flush(), Contains("missing/index: cannot be written"));
    CHECK(has(store, 1));
  }
  const std::string told = errors.text();
  const auto at = told.find("stays in memory");
  REQUIRE(at != std::string::npos);
  CHECK(told.find("stays in memory", at + 1) == std::string::npos);
}

TEST_CASE("what cannot be written is written once it can", "[data]") {
  const TemporaryFolder folder;
  IndexStore store(folder / "later/index", {});
  record(store, {1});
  CHECK_THROWS_AS(store.flush(), RunError);
  fs::create_directory(folder / "later");
  store.flush();
  CHECK(has(IndexTable(folder / "later/index", {}), 1));
}

TEST_CASE("a file of another version is replaced in the end", "[data]") {
  const TemporaryFolder folder;
  const std::string file = folder / "index";
  append_indices(file, {9, 9}, entries_for({1, 2, 3, 4}));
  IndexStore store(file, kSource);
  record(store, {1});
  store.flush();
  CHECK(IndexTable(file, kSource).compact());
  CHECK(has(store, 1));
}

TEST_CASE("threads may look up and record while another saves", "[data]") {
  const TemporaryFolder folder;
  IndexStore store(folder / "index", {});
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (auto key = static_cast<uint64_t>(t); key < 2000; key += 3) {
        store.record(key, bytes_for(key));
        wrong += !has(store, key);
      }
    });
  }
  for (int i = 0; i < 20; ++i) store.save();
  for (auto& thread : threads) thread.join();
  CHECK(wrong == 0);
  store.flush();
  const IndexTable table(folder / "index", {});
  for (uint64_t key = 0; key < 2000; ++key) wrong += !has(table, key);
  CHECK(wrong == 0);
}

}  // namespace composer::index_store_test

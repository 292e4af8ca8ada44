#include "data/index_store.h"

#include <catch2/catch.hpp>
#include <thread>

#include "composer/error.h"
#include "composer/random.h"
#include "tests/data/helpers.h"

using namespace composer;
using namespace composer::test;

namespace {

std::vector<uint8_t> bytes_for(uint64_t key) {
  std::vector<uint8_t> bytes(key % 7 * 5);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(key * 31 + i);
  return bytes;
}

bool has(const IndexStore& store, int64_t sample, uint64_t key, const FileStamp& stamp = {}) {
  const auto found = store.find(sample, key, stamp);
  const auto expected = bytes_for(key);
  return found &&
         std::equal(found->bytes.begin(), found->bytes.end(), expected.begin(), expected.end());
}

constexpr FileStamp kSource{1000, 2000};

}  // namespace

TEST_CASE("recorded indices are found at once, and again from the side file", "[data]") {
  const TemporaryFolder folder;
  const std::string file = folder / "a.beton.index";
  {
    IndexStore store(file, kSource, 100);
    CHECK_FALSE(store.find(3, 3));
    CHECK_FALSE(store.save());
    CHECK_FALSE(fs::exists(file));
    for (const uint64_t key : {90u, 3u, 41u}) {
      store.record(static_cast<int64_t>(key), key, bytes_for(key));
    }
    CHECK(has(store, 3, 3));
    CHECK(store.save());
    CHECK(has(store, 3, 3));
    CHECK_FALSE(store.save());
  }
  {
    IndexStore store(file, kSource, 100);
    for (const uint64_t key : {90u, 3u, 41u}) CHECK(has(store, static_cast<int64_t>(key), key));
    CHECK_FALSE(store.find(4, 4));
    store.record(4, 4, bytes_for(4));
    store.record(90, 90, bytes_for(90));
    CHECK(store.save());
  }
  const IndexStore store(file, kSource, 100);
  for (const uint64_t key : {90u, 3u, 41u, 4u}) CHECK(has(store, static_cast<int64_t>(key), key));
  CHECK(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) == 1);
}

TEST_CASE("an index counts only for the version of the file it was made of", "[data]") {
  const TemporaryFolder folder;
  const std::string file = folder / "index";
  IndexStore store(file, {}, 10);
  store.record(1, 77, bytes_for(77), {10, 20});
  for (int round = 0; round < 2; ++round) {
    CHECK(has(store, 1, 77, {10, 20}));
    CHECK_FALSE(store.find(1, 77, {11, 20}));
    CHECK_FALSE(store.find(1, 77, {10, 21}));
    CHECK_FALSE(store.find(1, 78, {10, 20}));
    store.save();
  }
  CHECK_FALSE(IndexStore(file, {5, 6}, 10).find(1, 77, {10, 20}));
}

TEST_CASE("a damaged side file gives no wrong index", "[data]") {
  const TemporaryFolder folder;
  const std::string file = folder / "index";
  {
    IndexWriter writer(file);
    for (uint64_t key = 0; key < 50; ++key) writer.add(key, bytes_for(key));
    CHECK_THROWS(writer.add(49, bytes_for(49)));
    writer.finish(kSource);
  }
  const std::string whole = read_bytes(file);
  const auto check = [&](const std::string& bytes) {
    write_file(file, bytes);
    const IndexStore store(file, kSource, 50);
    for (int64_t key = 0; key < 50; ++key) {
      const auto index = store.find(key, static_cast<uint64_t>(key));
      if (index) CHECK(has(store, key, static_cast<uint64_t>(key)));
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

TEST_CASE("a side file with damaged rows is mended", "[data]") {
  const TemporaryFolder folder;
  const std::string file = folder / "index";
  {
    IndexWriter writer(file);
    for (uint64_t key = 0; key < 50; ++key) writer.add(key, bytes_for(key));
    writer.finish(kSource);
  }
  std::string bytes = read_bytes(file);
  bytes[bytes.size() - 40 * 30 + 7] = 1;  // the key of row 20, now very large
  write_file(file, bytes);
  IndexStore store(file, kSource, 50);
  CHECK_FALSE(store.find(20, 20));
  store.record(10, 10, bytes_for(10));
  store.record(20, 20, bytes_for(20));
  REQUIRE(store.save());
  const IndexStore again(file, kSource, 50);
  for (int64_t key = 0; key < 50; ++key) CHECK(has(again, key, static_cast<uint64_t>(key)));
}

TEST_CASE("a folder that cannot be written keeps the indices in memory", "[data]") {
  const TemporaryFolder folder;
  IndexStore store(folder / "missing/index", {}, 10);
  store.record(1, 1, bytes_for(1));
  CHECK_FALSE(store.save());
  CHECK(has(store, 1, 1));
}

TEST_CASE("an unfinished side file leaves nothing", "[data]") {
  const TemporaryFolder folder;
  { IndexWriter(folder / "index").add(1, bytes_for(1)); }
  CHECK(fs::is_empty(folder.path()));
}

TEST_CASE("threads may look up and record while another saves", "[data]") {
  const TemporaryFolder folder;
  IndexStore store(folder / "index", {}, 2000);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (int64_t i = t; i < 2000; i += 3) {
        const auto key = static_cast<uint64_t>(i);
        store.record(i, key, bytes_for(key));
        const auto found = store.find(i, key);
        const auto expected = bytes_for(key);
        wrong += found && !std::equal(found->bytes.begin(), found->bytes.end(), expected.begin(),
                                      expected.end());
      }
    });
  }
  for (int i = 0; i < 20; ++i) store.save();
  for (auto& thread : threads) thread.join();
  CHECK(wrong == 0);
}

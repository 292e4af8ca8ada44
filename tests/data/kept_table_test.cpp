#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "base/error.h"
#include "data/files/file_lock.h"
#include "data/samples/sample_table.h"
#include "tests/data/errors.h"
#include "tests/files.h"

namespace composer::kept_table_test {

using namespace composer::test;
using Catch::Matchers::Contains;
using std::chrono::milliseconds;

namespace {

/// Makes tables of one file that watch a folder, and counts how often.
struct Maker {
  std::string root;
  std::atomic<int> makings = 0;
  PathStamp::Kind kind = PathStamp::folder;  ///< changing: the folder's stamp is not trusted
  milliseconds time{0};

  TableMaker maker() {
    return {.does = "counts", .root = root, .make = [this] {
              ++makings;
              auto stamp = path_stamp_of(root + "data");
              stamp.kind = kind;
              std::this_thread::sleep_for(time);
              SampleTableWriter writer;
              writer.add_class("a");
              writer.add_file("data/x.jpg", 0);
              writer.watch("data", stamp);
              return std::optional(writer.bytes());
            }};
  }
};

struct Folders : TemporaryFolder {
  std::string file = *this / "cache/deep/a.table";
  Maker maker{.root = (*this / "").string()};

  /// The folder's time is older than what becomes of it, however coarse the file system's clock.
  Folders() {
    fs::create_directories(*this / "data");
    fs::last_write_time(*this / "data", fs::file_time_type::clock::now() - std::chrono::hours(1));
  }
  std::shared_ptr<const SampleTable> open() { return kept_table(file, maker.maker()); }
};

}  // namespace

TEST_CASE("a table is made once, and anew when what it watches has changed", "[data]") {
  Folders folders;
  for (int i = 0; i < 3; ++i) CHECK(folders.open()->name(0) == "x.jpg");
  CHECK(folders.maker.makings == 1);
  CHECK(std::distance(fs::directory_iterator(folders / "cache/deep"), fs::directory_iterator()) ==
        1);
  write_file(folders / "data/new", "");
  folders.open();
  CHECK(folders.maker.makings == 2);
  fs::rename(folders / "data", folders / "old");
  folders.maker.kind = PathStamp::no_folder;
  folders.open();
  CHECK(folders.maker.makings == 3);
  folders.open();
  CHECK(folders.maker.makings == 3);
  fs::create_directories(folders / "data");
  folders.open();
  CHECK(folders.maker.makings == 4);
}

TEST_CASE("a table with other classes, damaged or with stamps that may not last is made anew",
          "[data]") {
  Folders folders;
  folders.open();
  auto maker = folders.maker.maker();
  maker.classes = {"a"};
  kept_table(folders.file, maker);
  CHECK(folders.maker.makings == 1);
  maker.classes = {"b"};
  CHECK(kept_table(folders.file, maker)->class_names() == std::vector<std::string>{"a"});
  CHECK(folders.maker.makings == 2);

  const std::string whole = read_bytes(folders.file);
  for (const std::string& bytes : {whole.substr(0, 100), std::string(), whole + "x"}) {
    write_file(folders.file, bytes);
    const int before = folders.maker.makings;
    CHECK(folders.open()->size() == 1);
    CHECK(folders.maker.makings == before + 1);
    CHECK(read_bytes(folders.file) == whole);
  }

  folders.maker.kind = PathStamp::changing;
  write_file(folders / "data/new", "");
  const int before = folders.maker.makings;
  for (int i = 1; i <= 3; ++i) {
    folders.open();
    CHECK(folders.maker.makings == before + i);
  }
}

TEST_CASE("ranks that open a set at once share one table that one of them makes", "[data]") {
  for (const auto kind : {PathStamp::folder, PathStamp::changing}) {
    Folders folders;
    folders.maker.kind = kind, folders.maker.time = milliseconds(300);
    std::atomic<int> good = 0;
    std::vector<std::thread> ranks;
    for (int i = 0; i < 6; ++i)
      ranks.emplace_back([&] { good += folders.open()->name(0) == "x.jpg"; });
    for (auto& rank : ranks) rank.join();
    CHECK(good == 6);
    CHECK(folders.maker.makings == 1);
  }
}

TEST_CASE("a table that cannot be kept is told of, and each makes its own", "[data]") {
  Folders folders;
  write_file(folders / "cache", "in the way");
  Errors errors(folders / "errors");
  for (int i = 1; i <= 2; ++i) {
    CHECK(folders.open()->size() == 1);
    CHECK(folders.maker.makings == i);
  }
  CHECK(kept_table("", folders.maker.maker())->size() == 1);
  const std::string told = errors.text();
  CHECK_THAT(told, Contains("each process counts by itself, at every start: ") &&
                       Contains("a.table.lock: Not a directory") && Contains("XDG_CACHE_HOME"));
}

TEST_CASE("what keeps a table from being made is thrown, and nothing is left", "[data]") {
  Folders folders;
  auto maker = folders.maker.maker();
  maker.make = []() -> std::optional<std::vector<uint8_t>> { throw UserError("no such thing"); };
  CHECK_THROWS_WITH(kept_table(folders.file, maker), "no such thing");
  maker.make = [] { return std::optional<std::vector<uint8_t>>(); };
  CHECK(kept_table(folders.file, maker) == nullptr);
  CHECK(fs::is_empty(folders / "cache/deep"));
}

// Slow, so that it has a process of its own: it forks, which other tests' threads do not survive.
TEST_CASE("a lock goes with its holder, whatever ends it", "[data][slow]") {
  const TemporaryFolder folder;
  const std::string file = folder / "lock";
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const pid_t holder = ::fork();
  if (holder == 0) {
    const FileLock lock(file, "waits");
    ssize_t done = ::write(ready[1], "x", 1);
    for (;;) done += ::pause();
  }
  char byte;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  ::close(ready[0]), ::close(ready[1]);
  CHECK(fs::exists(file));
  Errors errors(folder / "errors");
  std::thread killer([&] {
    // Until the other thread has waited for so long that it says so.
    while (read_bytes(folder / "errors").find("waiting") == std::string::npos)
      std::this_thread::sleep_for(milliseconds(10));
    ::kill(holder, SIGKILL);
  });
  {
    const FileLock lock(file, "writes all");
    CHECK(lock.waited());
    CHECK(lock.problem().empty());
  }
  killer.join();
  int status = 0;
  ::waitpid(holder, &status, 0);
  CHECK(WIFSIGNALED(status));
  CHECK_THAT(errors.text(), Contains("waiting for another process, which writes all"));
  CHECK_FALSE(fs::exists(file));
  const FileLock again(file, "writes all");
  CHECK_FALSE(again.waited());
}

TEST_CASE("a lock has one holder at a time", "[data]") {
  const TemporaryFolder folder;
  std::atomic<int> inside = 0, most = 0, held = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 5; ++round) {
        const FileLock lock(folder / "lock", "counts");
        held += lock.problem().empty();
        most = std::max(most.load(), ++inside);
        std::this_thread::sleep_for(milliseconds(1));
        --inside;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(most == 1);
  CHECK(held == 40);
  CHECK_FALSE(FileLock(folder / "none/lock", "counts").problem().empty());
}

}  // namespace composer::kept_table_test

#include "base/files/atomic_file.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <sstream>

#include "base/error.h"
#include "base/host_name.h"
#include "tests/base/child_process.h"
#include "tests/base/largest_file.h"
#include "tests/temporary_folder.h"

namespace composer::atomic_file_test {

using Catch::Contains;

namespace {

namespace fs = std::filesystem;

std::string content(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

auto begun_file(const fs::path& path) {
  return [path] {
    auto file = std::make_unique<AtomicFile>(path);
    file->write(std::string(100'000, 'x'));
    return file;
  };
}

}  // namespace

TEST_CASE("a file has its name when it is whole", "[storage]") {
  const TemporaryFolder folder;
  folder.write("a", "older");
  const std::string large(200'000, 'z');
  for (const bool to_disk : {false, true}) {
    AtomicFile file(folder / "a");
    file.write("0123");
    file.write("45");
    file.write_at(10, {});
    file.write("ten");
    file.write(large);
    CHECK(file.position() == 13 + large.size());
    file.write_at(1, std::vector<uint8_t>{'x', 'y'});
    CHECK(content(folder / "a") == (to_disk ? content(folder / "b") : "older"));
    CHECK(names_in(folder.path()).size() == (to_disk ? 3 : 2));
    to_disk ? file.commit_to_disk() : file.commit();
    CHECK(content(folder / "a") == std::string("0xy345\0\0\0\0ten", 13) + large);
    fs::copy_file(folder / "a", folder / "b", fs::copy_options::overwrite_existing);
  }
  CHECK(names_in(folder.path()) == std::vector<std::string>{"a", "b"});
}

TEST_CASE("a file may have a time of its own", "[storage]") {
  const TemporaryFolder folder;
  const auto time = fs::file_time_type::clock::now() - std::chrono::hours(100);
  {
    AtomicFile file(folder / "a");
    file.write("first");
    file.set_time(time);
    file.commit();
  }
  CHECK(fs::last_write_time(folder / "a") == time);
  CHECK(content(folder / "a") == "first");
  CHECK(names_in(folder.path()) == std::vector<std::string>{"a"});
}

TEST_CASE("a file that is not committed leaves nothing, and an older one as it was", "[storage]") {
  const TemporaryFolder folder;
  folder.write("a", "older");
  {
    AtomicFile file(folder / "a"), second(folder / "a");
    file.write("newer");
    CHECK(names_in(folder.path()).size() == 3);
  }
  CHECK(names_in(folder.path()) == std::vector<std::string>{"a"});
  CHECK(content(folder / "a") == "older");
}

TEST_CASE("what a file cannot be written for is named, and nothing is left", "[storage]") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(write_whole(folder / "no/such", "x"),
                    Contains("no/such: cannot be written: No such file or directory"));
  CHECK_THROWS_WITH(write_whole(folder.path(), "x"), Contains("it is no regular file"));
  CHECK_THROWS_AS(write_whole("/dev/null", "x"), RunError);

  folder.write("a", "older");
  {
    const LargestFile limit(50'000);
    CHECK_THROWS_WITH(write_whole(folder / "a", std::string(100'000, 'x')),
                      (folder / "a").string() + ": cannot be written: File too large (disk full?)");
  }
  CHECK(names_in(folder.path()) == std::vector<std::string>{"a"});
  CHECK(content(folder / "a") == "older");
}

TEST_CASE("partial files of killed processes are removed, those of living ones not", "[storage]") {
  const TemporaryFolder folder;
  ChildProcess killed(begun_file(folder / "a"));
  const ChildProcess living(begun_file(folder / "b"));
  killed.kill();
  folder.write("c.partial-another-machine-7-0", "x");
  folder.write("d.partial-1", "x");
  folder.write("e.partial-" + host_name() + "-of-1", "x");
  REQUIRE(names_in(folder.path()).size() == 5);
  const AtomicFile own(folder / "own");
  remove_partial_files(folder.path());
  const auto names = names_in(folder.path());
  REQUIRE(names.size() == 5);
  CHECK_THAT(names[0], Catch::StartsWith("b.partial-" + host_name()));
  CHECK(names[1] == "c.partial-another-machine-7-0");
  CHECK(names[2] == "d.partial-1");
  CHECK(names[3] == "e.partial-" + host_name() + "-of-1");
  CHECK_THAT(names[4], Catch::StartsWith("own.partial-"));
  remove_partial_files(folder / "none");
}

}  // namespace composer::atomic_file_test

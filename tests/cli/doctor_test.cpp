#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/read_speed.h"
#include "tests/cli/program.h"
#include "tests/files.h"

namespace composer::doctor_test {

using namespace composer::test;
using Catch::Contains;
namespace fs = std::filesystem;

TEST_CASE("reading is measured of all files that can be read", "[doctor]") {
  const TemporaryFolder folder;
  write_file(folder / "elsewhere/train/a.bin", std::string(1000, 'x') + "\n");
  fs::create_directories(folder / "data");
  fs::create_directory_symlink("../elsewhere", folder / "data/linked");
  fs::create_directory_symlink("../data", folder / "elsewhere/back");
  fs::create_symlink("nowhere", folder / "data/dangling");
  fs::create_symlink("itself", folder / "data/itself");
  const auto linked = measure_reading(folder / "data");
  CHECK(linked.files == 1);
  CHECK(linked.bytes == 1001);
  CHECK(linked.unreadable == 0);

  fs::create_symlink("/proc/self/mem", folder / "data/unreadable.bin");
  const auto unreadable = measure_reading(folder / "data");
  CHECK(unreadable.files == 1);
  CHECK(unreadable.unreadable == 1);
  CHECK_THAT(unreadable.why_unreadable, Contains("unreadable.bin: "));
  CHECK_THROWS_AS(measure_reading(folder / "data/unreadable.bin"), UserError);

  write_file(folder / "large/a.bin", "\n");
  fs::resize_file(folder / "large/a.bin", int64_t{200} << 20);  // without blocks on the disk
  write_file(folder / "large/b.bin", "\n");
  fs::resize_file(folder / "large/b.bin", int64_t{1} << 40);
  const auto large = measure_reading(folder / "large");
  CHECK(large.size == (int64_t{200} << 20) + (int64_t{1} << 40));
  CHECK(large.bytes == 256 << 20);
}

TEST_CASE("a file system without a disk is said to be one", "[doctor]") {
  struct statfs about {};
  if (::statfs("/dev/shm", &about) != 0 || about.f_type != TMPFS_MAGIC) {
    WARN("skipped: /dev/shm is no tmpfs");
    return;
  }
  const auto file = fs::path("/dev/shm") / ("composer_test_" + std::to_string(::getpid()));
  write_file(file, "some\n");
  const auto speed = measure_reading(file);
  fs::remove(file);
  CHECK(speed.in_memory);
}

TEST_CASE("compute threads spin for a short time, unless the environment says how long",
          "[cli][doctor]") {
  const TemporaryFolder folder;
  const auto threads_of = [&](const std::vector<std::string>& set) {
    std::vector<std::string> words{"-u", "OMP_WAIT_POLICY", "-u", "GOMP_SPINCOUNT"};
    words.insert(words.end(), set.begin(), set.end());
    words.insert(words.end(), {PROGRAM, "doctor", "--json"});
    return nlohmann::json::parse(run(folder.path(), words, "env").output)["threads"];
  };
  CHECK(threads_of({})["wait_settings"] == "GOMP_SPINCOUNT=1000");
  CHECK(threads_of({"GOMP_SPINCOUNT=7"})["wait_settings"] == "GOMP_SPINCOUNT=7");
  CHECK(threads_of({"OMP_WAIT_POLICY=passive"})["wait_settings"] == "OMP_WAIT_POLICY=passive");
}

TEST_CASE("doctor goes on where Gloo fails, and judges no disk by a small file", "[cli][doctor]") {
  const TemporaryFolder folder;
  write_file(folder / "data/caf\xe9.bin", "abc\n");
  const auto told = run(
      folder.path(),
      {"-c", "GLOO_SOCKET_IFNAME=none exec " PROGRAM " doctor --json --data data/caf*"}, "/bin/sh");
  INFO(told.errors);
  REQUIRE(told.status == 0);
  const auto json = nlohmann::json::parse(told.output);
  CHECK(json["ranks"]["problem"].get<std::string>() != "");
  CHECK_THAT(json["problems"].dump(), Contains("ranks of this machine cannot meet"));
  CHECK_THAT(json["problems"].dump(), !Contains("MB/s"));
  CHECK_THAT(json["data"]["path"].get<std::string>(), Contains("caf\xef\xbf\xbd"));
}

TEST_CASE("doctor says what the machine has, in words and in JSON", "[cli][doctor]") {
  const TemporaryFolder folder;
  write_file(folder / "data/some.bin", std::string(1 << 20, 'x') + "\n");
  const auto told =
      run(folder.path(), {"-c", "ulimit -n 512; exec " PROGRAM " doctor --json --data data"},
          "/bin/sh");
  INFO(told.errors);
  REQUIRE(told.status == 0);
  const auto json = nlohmann::json::parse(told.output);
  CHECK(json["cores"]["allowed"] >= 1);
  CHECK(json["memory"]["bytes"] > 0);
  CHECK(json["ranks"]["gloo_25MiB_seconds"] > 0);
  CHECK(json["data"]["bytes"] == (1 << 20) + 1);
  CHECK(json["data"]["cache_bytes_per_second"] > 0);
  CHECK(json["GPUs"]["names"].is_array());
  CHECK(json["limits"]["open_files"] == 512);
  CHECK_THAT(json["problems"].dump(), Contains("may open 512 files"));

  const auto words = run(folder.path(), {"doctor"});
  CHECK(words.status == 0);
  for (const char* subject : {"cores", "instructions", "memory", "limits", "GPUs", "ranks"})
    CHECK_THAT(words.output, Contains(std::string("\n") + subject));

  const auto wrong = run(folder.path(), split("doctor --data nowhere"));
  CHECK(wrong.status == 2);
  CHECK_THAT(wrong.errors, Contains("--data: nowhere is neither a file nor a folder"));
}

}  // namespace composer::doctor_test

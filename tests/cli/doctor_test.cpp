#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "cli/machine_limits.h"
#include "tests/cli/program.h"
#include "tests/composer/temporary_folder.h"

using namespace composer;
using Catch::Contains;
namespace fs = std::filesystem;

namespace {

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text << '\n';
}

}  // namespace

TEST_CASE("limits of containers are those of the narrowest group above", "[doctor]") {
  const TemporaryFolder two;
  CHECK_FALSE(read_group_limits(two.path()).processors);
  write(two / "proc/self/cgroup", "0::/jobs/mine");
  write(two / "sys/fs/cgroup/jobs/cpu.max", "150000 100000");
  write(two / "sys/fs/cgroup/jobs/memory.max", "2147483648");
  write(two / "sys/fs/cgroup/jobs/mine/cpu.max", "max 100000");
  write(two / "sys/fs/cgroup/jobs/mine/memory.max", "max");
  write(two / "sys/fs/cgroup/jobs/mine/memory.current", "1000");
  const auto limits = read_group_limits(two.path());
  CHECK(limits.processors == 1.5);
  CHECK(limits.memory_bytes == int64_t{2} << 30);
  CHECK(limits.memory_used_bytes == 1000);

  const TemporaryFolder one;
  write(one / "proc/self/cgroup", "5:cpu,cpuacct:/docker/x\n3:memory:/docker/x");
  write(one / "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000");
  write(one / "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
  write(one / "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  const auto first = read_group_limits(one.path());
  CHECK(first.processors == 0.5);
  CHECK_FALSE(first.memory_bytes);

  write(one / "proc/meminfo", "MemTotal:       2048 kB\nMemAvailable:   1024 kB");
  const auto machine = read_machine_limits(one.path());
  CHECK(machine.memory_bytes == 2 << 20);
  CHECK(machine.available_bytes == 1 << 20);
  CHECK(machine.allowed_processors >= 1);
  CHECK(machine.processor_quota == 0.5);
}

TEST_CASE("doctor says what the machine has, in words and in JSON", "[cli][doctor]") {
  const TemporaryFolder folder;
  write(folder / "data/some.bin", std::string(1 << 20, 'x'));
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

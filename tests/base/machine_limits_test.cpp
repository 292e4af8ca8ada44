#include "base/machine_limits.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <string>

#include "tests/files.h"

namespace composer::machine_limits_test {

using namespace composer::test;
namespace fs = std::filesystem;

TEST_CASE("what other programs take of the machine", "[machine]") {
  const TemporaryFolder root;
  const auto second = ::sysconf(_SC_CLK_TCK);
  const auto processor = std::to_string(scheduled_processors().front());
  const auto ticks = [&](double seconds) {
    return std::to_string(std::llround(seconds * static_cast<double>(second)));
  };
  // Of one processor that this process may run on, and one that it may not.
  const auto write_processors = [&](double user, double idle, double stolen) {
    write_file(root / "proc/stat", "cpu  9 9 9 9 9 9 9 9 0 0\ncpu" + processor + " " + ticks(user) +
                                       " 0 0 " + ticks(idle) + " 0 0 0 " + ticks(stolen) +
                                       " 0 0\ncpu99999 " + ticks(user * 100) +
                                       " 0 0 0 0 0 0 0 0 0\nintr 5\n");
  };
  const auto write_process = [&](int number, int parent, double own, double of_ended) {
    write_file(root / ("proc/" + std::to_string(number) + "/stat"),
               std::to_string(number) + " (a ) b) S " + std::to_string(parent) +
                   " 0 0 0 0 0 0 0 0 0 " + ticks(own) + " 0 " + ticks(of_ended) + " 0 20 0\n");
  };
  write_processors(10, 10, 0);
  write_process(50, 1, 2, 1);
  write_process(51, 50, 1, 0);
  write_process(70, 1, 5, 0);
  const OtherPrograms others(root.path(), 50);
  CHECK_FALSE(others.share());  // no time has passed
  write_processors(18, 11, 1);
  write_process(50, 1, 3, 1);
  write_process(51, 50, 2, 1);
  write_process(52, 51, 1, 0);
  write_process(70, 1, 8, 0);
  REQUIRE(others.share());  // of 10 s: 4 are ours, 1 is idle
  CHECK(*others.share() == Approx(0.5));
  CHECK(others_text(0.5) == "other programs took 50 % of the processors' time");
  CHECK_FALSE(OtherPrograms(root / "none").share());
  CHECK(OtherPrograms().share().value_or(0) <= 1);
}

TEST_CASE("limits of containers are those of the narrowest group above", "[machine]") {
  const TemporaryFolder two;
  CHECK_FALSE(read_machine_limits(two.path()).processor_quota);
  write_file(two / "proc/self/cgroup", "0::/jobs/mine\n");
  write_file(two / "sys/fs/cgroup/jobs/cpu.max", "150000 100000\n");
  write_file(two / "sys/fs/cgroup/jobs/memory.max", "2147483648\n");
  write_file(two / "sys/fs/cgroup/jobs/mine/cpu.max", "max 100000\n");
  write_file(two / "sys/fs/cgroup/jobs/mine/memory.max", "max\n");
  write_file(two / "sys/fs/cgroup/jobs/mine/memory.current", "1000\n");
  write_file(two / "sys/fs/cgroup/jobs/memory.current", "2000000000\n");
  write_file(two / "sys/fs/cgroup/jobs/memory.stat",
             "anon 300000000\ninactive_file 1500000000\nactive_file 100000000\n");
  const auto limits = read_machine_limits(two.path());
  CHECK(limits.processor_quota == 1.5);
  CHECK(limits.memory_limit_bytes == int64_t{2} << 30);
  CHECK(limits.memory_room_bytes == (int64_t{2} << 30) - 400000000);

  write_file(two / "sys/fs/cgroup/jobs/mine/memory.max", "3000000000\n");
  write_file(two / "sys/fs/cgroup/jobs/mine/memory.current", "2900000000\n");
  const auto fuller = read_machine_limits(two.path());
  CHECK(fuller.memory_limit_bytes == int64_t{2} << 30);
  CHECK(fuller.memory_room_bytes == 100000000);
  write_file(two / "proc/meminfo", "MemTotal:       4194304 kB\nMemAvailable:   2097152 kB\n");
  CHECK(room_for_memory(read_machine_limits(two.path())) == 100000000);

  const TemporaryFolder unreadable;  // for root too: the name is too long
  write_file(unreadable / "proc/self/cgroup", "0::/" + std::string(300, 'x') + "\n");
  CHECK_FALSE(read_machine_limits(unreadable.path()).memory_limit_bytes);

  const TemporaryFolder one;
  write_file(one / "proc/self/cgroup", "5:cpu,cpuacct:/docker/x\n3:memory:/docker/x\n");
  write_file(one / "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n");
  write_file(one / "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  write_file(one / "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  const auto first = read_machine_limits(one.path());
  CHECK(first.processor_quota == 0.5);
  CHECK_FALSE(first.memory_limit_bytes);
  CHECK_FALSE(first.memory_room_bytes);
  write_file(one / "sys/fs/cgroup/memory/memory.limit_in_bytes", "8589934592\n");
  write_file(one / "sys/fs/cgroup/memory/memory.usage_in_bytes", "8053063680\n");
  write_file(one / "sys/fs/cgroup/memory/memory.stat",
             "inactive_file 1\ntotal_inactive_file 6000000000\n");
  CHECK(read_machine_limits(one.path()).memory_room_bytes == 8589934592 - 2053063680);

  write_file(one / "proc/meminfo", "MemTotal:       2048 kB\nMemAvailable:   1024 kB\n");
  const auto machine = read_machine_limits(one.path());
  CHECK(machine.memory_bytes == 2 << 20);
  CHECK(machine.available_bytes == 1 << 20);
  CHECK(room_for_memory(machine) == 1 << 20);
  CHECK(machine.allowed_processors >= 1);
  CHECK(machine.processor_quota == 0.5);
  CHECK(usable_processors(machine) == 1);
}

TEST_CASE("a quota counts where it is narrower than the scheduler's limit", "[machine]") {
  MachineLimits limits;
  CHECK(usable_processors(limits) == 1);
  limits.allowed_processors = 8;
  CHECK(usable_processors(limits) == 8);
  limits.processor_quota = 2.5;
  CHECK(usable_processors(limits) == 2);
  limits.processor_quota = 64;
  CHECK(usable_processors(limits) == 8);
  const auto numbers = scheduled_processors();
  CHECK(std::ssize(numbers) == read_machine_limits().allowed_processors);
}

}  // namespace composer::machine_limits_test

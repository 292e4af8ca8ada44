#include "cli/launcher.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <thread>

#include "composer/error.h"
#include "tests/cli/process.h"
#include "tests/composer/temporary_folder.h"

using namespace composer;

namespace {

std::vector<std::string> lines_of(const std::filesystem::path& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

}  // namespace

TEST_CASE("ranks are told their place among all", "[cli]") {
  const TemporaryFolder folder;
  Words words{"-n",
              "2",
              "--node_rank",
              "1",
              "--world_size",
              "6",
              "--master_addr",
              "box",
              "--master_port",
              "29501",
              "./show"};
  const Launch launch = take_launch_options(words);
  const Command show{
      "/bin/sh",
      {"-c",
       "echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $NODE_RANK $MASTER_ADDR:$MASTER_PORT "
       "> $LOCAL_RANK"},
      {},
      folder.path()};
  CHECK(run_ranks(launch, show) == 0);
  CHECK(lines_of(folder / "0") == Words{"2 0 6 2 1 box:29501"});
  CHECK(lines_of(folder / "1") == Words{"3 1 6 2 1 box:29501"});
}

TEST_CASE("machines that do not make up the world are refused", "[cli]") {
  const auto take = [](const std::string& node_rank, const std::string& world_size) {
    Words words{"-n", "4", "--world_size", world_size, "--node_rank", node_rank};
    return take_launch_options(words);
  };
  CHECK(take("1", "8").node_rank == 1);
  CHECK_THROWS_AS(take("2", "8"), UserError);
  CHECK_THROWS_AS(take("1", "6"), UserError);
  CHECK_THROWS_WITH(take("9223372036854775807", "8"),
                    Catch::Contains("node ranks below 2, not 9223372036854775807"));
}

TEST_CASE("no file becomes a standard stream that was closed", "[cli]") {
  const TemporaryFolder folder;
  const Process training(
      folder.path(),
      {"-c", "exec " PROGRAM
             " train --run_dir . --run_name run --train_dataset.shapes.samples 256 --max_duration "
             "100000ep --eval_interval 0 --save_interval 0 <&- >&- 2>&-"},
      "/bin/sh");
  const auto lock = folder / "run/.lock";
  for (int i = 0; i < 600 && !std::filesystem::exists(lock); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  CHECK(std::filesystem::exists(lock));
  const auto streams = std::filesystem::path("/proc") / std::to_string(training.id()) / "fd";
  for (const char* stream : {"0", "1", "2"})
    CHECK(std::filesystem::read_symlink(streams / stream) == "/dev/null");
  training.signal(SIGKILL);
  training.wait();
}

TEST_CASE("a rank that fails ends the others and gives its status", "[cli]") {
  Words words{"-n", "3"};
  const Launch launch = take_launch_options(words);
  const Command fails{"/bin/sh", {"-c", "[ $RANK != 1 ] || exit 7; exec sleep 100"}, {}, {}};
  CHECK(run_ranks(launch, fails) == 7);
}

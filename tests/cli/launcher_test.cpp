#include "cli/launcher.h"

#include <catch2/catch.hpp>
#include <fstream>

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

TEST_CASE("a rank that fails ends the others and gives its status", "[cli]") {
  Words words{"-n", "3"};
  const Launch launch = take_launch_options(words);
  const Command fails{"/bin/sh", {"-c", "[ $RANK != 1 ] || exit 7; exec sleep 100"}, {}, {}};
  CHECK(run_ranks(launch, fails) == 7);
}

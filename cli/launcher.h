// The launcher: options before the subcommand, and trainers that are programs of their own.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "composer/process/child.h"

namespace composer {

struct Launch {
  int64_t ranks = 1;       ///< on this machine
  int64_t node_rank = 0;   ///< this machine among those of as many ranks
  int64_t world_size = 1;  ///< on all machines
  std::string master_addr = "127.0.0.1", master_port = "29500";
};

/// Takes -n, --node_rank, --world_size, --master_addr and --master_port off the front of `words`.
Launch take_launch_options(Words& words);

/// UserError where launcher options stand behind the subcommand.
void check_place_of_options(const Words& words);

/// Replaces this process by the program words[0]: looked for as given, then beside this program.
/// UserError when there is none, with the subcommand that may have been meant.
int start_program(const Launch& launch, const Words& words);

/// What a process is told of its place: RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, NODE_RANK,
/// MASTER_ADDR, MASTER_PORT. local_rank: on this machine.
std::map<std::string, std::string> rank_environment(const Launch& launch, int64_t local_rank);

/// Runs `program` in launch.ranks processes, each told its place, to the end of all: the first that
/// fails ends the others. Their lines come on this process's streams behind "rank N: ". Returns 0,
/// or the status of the one that failed first.
int run_ranks(const Launch& launch, const Command& program);

/// All subcommands.
const std::vector<std::string>& command_names();

}  // namespace composer

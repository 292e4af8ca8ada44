// The launcher: starts and supervises the ranks of a trainer.
#pragma once

#include <map>
#include <string>

#include "base/process/child.h"
#include "cli/launch_options.h"

namespace composer {

/// The exit status of a rank that ended because other ranks ended or do not answer; the cause is in
/// the output of the other ranks.
constexpr int lost_ranks_status = 113;

/// The environment variables of a rank, as torchrun sets them: RANK, LOCAL_RANK, WORLD_SIZE,
/// LOCAL_WORLD_SIZE, NODE_RANK, MASTER_ADDR, MASTER_PORT. local_rank: index of the rank on this
/// machine.
std::map<std::string, std::string> rank_environment(const Launch& launch, int64_t local_rank);

/// Runs `program` in launch.ranks processes with rank_environment() until all have ended; restarts
/// them from the newest checkpoint up to launch.max_restarts times. Rank 0 inherits the output of
/// this process; the other ranks write log files in the run folder. The first rank that fails ends
/// the others, and its last lines are shown. Ranks that are asked to end are killed after
/// launch.grace_seconds (30), or later while the first rank reports a save in progress
/// (SaveReports). Returns 0, or the status of the rank that failed first.
int run_ranks(const Launch& launch, const Command& program);

}  // namespace composer

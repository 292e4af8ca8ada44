// The launcher: starts the ranks of a trainer and sees them to their end.
#pragma once

#include <map>
#include <string>

#include "base/process/child.h"
#include "cli/launch_options.h"

namespace composer {

/// With it a rank tells the launcher that others ended or do not answer: what happened is for them
/// to tell.
constexpr int lost_ranks_status = 113;

/// What a process is told of its place, as torchrun tells it: RANK, LOCAL_RANK, WORLD_SIZE,
/// LOCAL_WORLD_SIZE, NODE_RANK, MASTER_ADDR, MASTER_PORT. local_rank: on this machine.
std::map<std::string, std::string> rank_environment(const Launch& launch, int64_t local_rank);

/// Runs `program` in launch.ranks processes, each told its place, to the end of all, and again from
/// its newest checkpoint where launch.max_restarts allows. Rank 0 writes where this process
/// writes, the others into files of the run. The first that fails ends the others, and its last
/// lines are shown. Ranks that are asked to end have launch.grace_seconds (30) before they are
/// killed, and longer while the first rank tells that a save goes on (SaveReports). Returns 0, or
/// the status of the one that failed first.
int run_ranks(const Launch& launch, const Command& program);

}  // namespace composer

// The place of a process among the ranks, and the limits of its machine.
#pragma once

#include "base/machine_limits.h"
#include "base/rank_environment.h"

namespace composer {

/// A command, or a program that trains, reads it once and passes it on.
struct RunContext {
  RankEnvironment environment;  ///< the process's place among the ranks
  MachineLimits limits;         ///< what the system lets the process use
};

/// The context of this process. Throws UserError as read_rank_environment() does.
inline RunContext read_run_context() { return {read_rank_environment(), read_machine_limits()}; }

}  // namespace composer

// The position of a process among the ranks, and the limits of its machine.
#pragma once

#include "base/machine_limits.h"
#include "base/rank_environment.h"

namespace composer {

/// A program reads it once and passes it on.
struct RunContext {
  RankEnvironment environment;
  MachineLimits limits;
};

/// The context of this process. Throws UserError as read_rank_environment() does.
inline RunContext read_run_context() { return {read_rank_environment(), read_machine_limits()}; }

}  // namespace composer

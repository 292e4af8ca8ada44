// The place of a process among the ranks, and the limits of its machine.
#pragma once

#include "base/machine_limits.h"
#include "base/place.h"

namespace composer {

/// A command, or a program that trains, reads it once and passes it on.
struct RunContext {
  Place place;           ///< the process's place among the ranks
  MachineLimits limits;  ///< what the system lets the process use
};

/// The context of this process. Throws UserError as place_of_process() does.
inline RunContext read_run_context() { return {place_of_process(), read_machine_limits()}; }

}  // namespace composer

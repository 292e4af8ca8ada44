// What a run is told by its launcher and its machine.
#pragma once

#include "base/machine_limits.h"
#include "base/place.h"

namespace composer {

/// A command, or a program that trains, makes it once and hands it on.
struct RunContext {
  Place place;           ///< of this process among the ranks
  MachineLimits limits;  ///< of this process
};

/// Of this process. UserError as place_of_process().
inline RunContext read_run_context() { return {place_of_process(), read_machine_limits()}; }

}  // namespace composer

// composer trace now: has a run that is going on trace its next steps.
#pragma once

#include "cli/commands.h"

namespace composer {

int trace_now_command(const Words& words);

}  // namespace composer

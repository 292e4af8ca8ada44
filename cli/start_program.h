// Programs that the command line names, and this one as the only rank of a launch.
#pragma once

#include "cli/commands.h"
#include "cli/launch_options.h"

namespace composer {

/// Whether the words of train or eval ask to be told of it, not to do it: --plan, --dump, --help.
bool only_looks(const Words& words);

/// Runs the program words[0], a path with a slash, looked for as given, then beside this program:
/// one rank in place of this process. UserError when there is none, and for a name without a slash,
/// with the subcommand or the path that may have been meant.
int start_program(const Launch& launch, const Words& words);

/// Makes this process the launch's first rank, for those who look at its place.
void take_first_place(const Launch& launch);

}  // namespace composer

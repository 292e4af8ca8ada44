// What may follow on a command line that is being typed.
#pragma once

#include <string>
#include <vector>

#include "cli/commands.h"

namespace composer {

struct Completion {
  struct Candidate {
    std::string word, doc;
  };
  std::vector<Candidate> candidates;
  bool files = false;  ///< paths may stand there too
};

/// line: the words after the program's name, the last of which is being typed and may be empty.
/// Every candidate begins with it. Subcommands, their actions, options and words; of those that
/// take a recipe its keys too, by whole path or, once three letters are there, by any ending that
/// is unique; for keys the names of components and the words that they may have. Nothing is
/// reported: of a recipe that cannot be resolved the keys of the run are there.
Completion complete(const Words& line);

}  // namespace composer

// Completion of a command line that is being typed.
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
  bool files = false;  ///< true when a path may be typed here too
};

/// The candidates for the last word of `line`, which are the words after the program's name; the
/// last word may be empty. Every candidate begins with it. Candidates are subcommands, actions,
/// options and their values. Commands with a recipe also offer its keys: by full path, or from
/// three letters on by any unique suffix; values of keys are names of components and the words that
/// a key accepts. Reports no errors: a recipe that cannot be resolved offers the keys of the run.
Completion complete(const Words& line);

}  // namespace composer

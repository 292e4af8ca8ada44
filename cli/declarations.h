// The declarations of the subcommands, for completion and the reference.
#pragma once

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <string>
#include <vector>

#include "cli/commands.h"

namespace composer {

struct OptionDoc {
  Words names;          ///< "-f", "--file"; the name of a positional argument
  Words choices;        ///< the accepted words, if the option has a fixed set of them
  std::string type;     ///< "text", "whole number, 1 to 1024"; empty for a flag
  std::string initial;  ///< default value; empty when `doc` tells it
  std::string doc;
  bool positional = false, required = false, several = false;
};

struct CommandDoc {
  std::string name;  ///< "bench step"
  std::string about, footer;
  std::vector<OptionDoc> options;
  bool takes_keys = false;  ///< whether keys of a recipe are accepted, as --dotted.key VALUE
};

/// The declaration of a subcommand, or of each of its actions. Runs nothing.
std::vector<CommandDoc> declarations_of(int (*command)(const Words&));

/// Whether the subcommands shall only record their declarations.
bool declares();

/// Records the declaration of `app` while declares() is true.
void declare(const CLI::App& app);

}  // namespace composer

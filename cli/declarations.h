// What the subcommands declare of themselves, for completion and the reference.
#pragma once

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <string>
#include <vector>

#include "cli/commands.h"

namespace composer {

struct OptionDoc {
  Words names;          ///< "-f", "--file"; of a word that needs no option its name
  Words choices;        ///< the words it takes, where they are few
  std::string type;     ///< "text", "whole number, 1 to 1024"; empty for a flag
  std::string initial;  ///< what it is when it is not given; empty where the text says so
  std::string doc;
  bool positional = false, required = false, several = false;
};

struct CommandDoc {
  std::string name;  ///< "bench step"
  std::string about, footer;
  std::vector<OptionDoc> options;
  bool takes_keys = false;  ///< those of a recipe, as --dotted.key VALUE
};

/// Of a subcommand; of one with actions, of each of them. Runs nothing.
std::vector<CommandDoc> declarations_of(int (*command)(const Words&));

/// Whether the subcommands are asked for their declarations alone.
bool declares();

/// Takes the declaration of `app` where it is asked for.
void declare(const CLI::App& app);

}  // namespace composer

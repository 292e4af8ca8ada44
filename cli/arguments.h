// What every subcommand does with its words: options by CLI11, the rest as overrides of a recipe.
#pragma once

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <string>

#include "cli/commands.h"

namespace composer {

/// Parses `words`. Returns false when help was asked for and printed, or the declarations alone are
/// asked for (cli/declarations.h). UserError on what CLI11 refuses. Words it does not know are left
/// in app.remaining() where the app allows extras.
bool parse(CLI::App& app, const Words& words);

/// Checks of a number; what CLI11's own say names the largest there is.
CLI::Validator positive();
CLI::Validator not_negative();

/// Takes these words alone.
CLI::Validator word_of(const Words& words);

/// Tells which words an option takes where the command itself checks them (check_word).
CLI::Validator choices(const Words& words);

/// The names of `app`'s options, without dashes.
Words option_names(const CLI::App& app);

/// The words that `app`, whose option --file is a recipe, left as overrides. UserError where the
/// recipe stands among them without that option, and where images of one's own do that only
/// another recipe takes.
Words overrides_of(const CLI::App& app);

/// UserError where `word`, which was given for `option`, is none of `known`.
void check_word(const std::string& option, const std::string& word, const Words& known);

/// Calls the entry of `table` that words[0] names with the words after it. Asked for help, it names
/// them all. UserError for any other word. command: whose table it is, for the messages.
int dispatch(const std::string& command, const CommandTable& table, const Words& words);

}  // namespace composer
